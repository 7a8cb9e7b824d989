"use strict";
(() => {
  // More of a list is shown on request: a browser has to lay out all of it.
  const FEW = 60;
  // The server says something every 15 seconds.
  const SILENCE = 45000;
  const token = document.querySelector('meta[name="token"]').content;
  const at = (id) => document.getElementById(id);
  let told = null; // The last message of the server.
  let heard = Date.now(); // When the server was heard of last.
  let lost = null; // Since when the server does not answer.
  let moving = false; // Something is under way.
  let source; // The stream of states.
  let timer; // Of the next tick.
  const opened = new Map(); // What the reader has opened or closed, by key.
  const whole = new Set(); // Lists that are shown whole, by key.

  // Messages come from any client of the cluster: they are only ever text, without characters that control how it is laid out.
  const clean = (text) => String(text ?? "").replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, " ");

  function make(tag, name, ...children) {
    const node = document.createElement(tag);
    if (name) node.className = name;
    node.append(...children);
    return node;
  }

  function write(node, text) {
    const next = clean(text);
    if (node.textContent !== next) node.textContent = next;
  }

  function show(node, visible) {
    if (node.hidden === visible) node.hidden = !visible;
  }

  function name(node, names) {
    const next = names.filter(Boolean).join(" ");
    if (node.className !== next) node.className = next;
  }

  // Brings the children in line with the items, and leaves those alone that are there already.
  function list(parent, items, key, create, fill) {
    const before = new Map([...parent.children].map((node) => [node.dataset.key, node]));
    let next = parent.firstElementChild;
    for (const item of items) {
      const id = key(item);
      const known = before.get(id);
      const node = known ?? create(item);
      before.delete(id);
      node.dataset.key = id;
      if (node === next) next = next.nextElementSibling;
      else parent.insertBefore(node, next);
      fill(node, item);
    }
    for (const node of before.values()) node.remove();
  }

  // Whoever publishes updates writes the addresses: none of them may be a script.
  const isLink = (url) => /^https?:\/\//.test(url ?? "");

  function lead(link, url) {
    if (link.getAttribute("href") !== url) Object.assign(link, { href: url, target: "_blank", rel: "noopener noreferrer" });
  }

  function now() {
    // The server runs on this machine, so both have one clock.
    return told && !told.live ? Date.parse(told.at) : Date.now();
  }

  function duration(milliseconds) {
    const all = Math.max(0, Math.round(milliseconds / 1000));
    const [days, hours, minutes, seconds] = [Math.floor(all / 86400), Math.floor(all / 3600) % 24, Math.floor(all / 60) % 60, all % 60];
    if (days) return `${days}d ${hours}h`;
    if (hours) return `${hours}h ${minutes}m`;
    return minutes ? `${minutes}m ${seconds}s` : `${seconds}s`;
  }

  const seconds = (number) => (number < 60 ? `${number.toFixed(1)}s` : duration(number * 1000));

  // An element whose text is the time since then, or until then.
  function clock(node, { since, until, before = "", after = "" }) {
    Object.assign(node.dataset, { clock: "", since: since ?? "", until: until ?? "", before, after });
    tell(node);
  }

  function tell(node) {
    const { since, until, before, after } = node.dataset;
    if (until) {
      const left = Date.parse(until) - now();
      write(node, left > 0 ? `${before}${duration(left)}${after}` : "now");
    } else {
      write(node, since ? `${before}${duration(now() - Date.parse(since))}${after}` : "");
    }
  }

  const tellAll = () => document.querySelectorAll("[data-clock]").forEach(tell);

  const component = (id) => id.split("/").slice(2).join("/") || id;
  const object = (it) => `${it.kind} ${it.namespace ? `${it.namespace}/` : ""}${it.name}`;

  function headline(view) {
    const target = view.target.version || view.target.image;
    if (view.phase === "Installing") return `Installing ${target}`;
    if (view.phase === "Updating") return view.version === view.target.version ? `Applying ${target} again` : `Updating ${view.version} → ${target}`;
    if (view.phase === "Running") return `Running ${target}`;
    return target ? `Release ${target}` : "Nothing is known yet: there is no ClusterVersion, or the daemon has not read it";
  }

  // What an update waits for, worst first.
  function blockers(view) {
    const items = [];
    const add = (weight, key, title, text, since, step, until) => items.push({ weight, key, title, text, since, step, until });
    for (const it of view.silences ?? []) {
      add(0, `silence ${it.lease}`, "Not up to date: nobody renews " + it.lease, it.message, it.since, it.causes.length ? "" : it.nextStep);
      for (const cause of it.causes) add(0, `reason ${it.lease} ${cause.object}`, `Why, as far as is known: ${cause.object}`, cause.message, null, cause.nextStep);
    }
    for (const it of view.concerns) {
      const fine = it.status === "Unknown" || ["Upgradeable", "RetrievedUpdates"].includes(it.type);
      const value = it.status === "True" ? "" : `=${it.status}`;
      const until = it.type === "ReleaseAccepted" && told.live ? view.refused?.again : null;
      add(fine ? 1 : 0, `condition ${it.type}`, `${it.type}${value}: ${it.reason}`, it.message, it.since, it.nextStep, until);
    }
    for (const it of view.components) {
      for (const wait of it.waiting ?? []) {
        const verb = it.state === "failing" ? "fails with" : "waits for";
        add(it.state === "failing" ? 0 : 2, `wait ${it.id} ${object(wait)}`, `${component(it.id)} ${verb} ${object(wait)}`, wait.message || wait.reason, wait.since);
      }
      if (it.error && !(it.waiting ?? []).some((wait) => wait.message === it.error)) add(0, `error ${it.id}`, `${component(it.id)} fails`, it.error);
    }
    for (const it of view.operators) {
      const state = { Degraded: "is degraded", NotAvailable: "is not available" }[it.state] ?? "has not reported";
      add(it.state === "NotReported" ? 2 : 0, `operator ${it.name}`, `Operator ${it.name} ${state}`, [it.reason, it.message].filter(Boolean).join(": "), it.since, it.nextStep);
    }
    for (const it of view.details ?? []) {
      for (const [n, cause] of it.causes.entries()) add(1, `detail ${it.object} ${n}`, `Behind ${it.object}: ${cause.object}`, cause.message, null, cause.nextStep);
    }
    for (const it of view.pools) {
      if (it.blocked) add(1, `blocked ${it.name}`, `Pool ${it.name}: ${it.blocked.reason}`, it.blocked.message, it.blocked.since, it.blocked.nextStep);
      if (it.quorumRisk) add(1, `quorum ${it.name}`, `Pool ${it.name}: etcd's quorum is at risk`, it.quorumRisk);
    }
    for (const it of view.slow ?? []) {
      const before = it.before.map(seconds).join(", ");
      add(2, `slow ${it.component}`, `${it.component} takes longer than before`, `${seconds(it.seconds)} by now; in earlier updates ${before}`);
    }
    return items.sort((a, b) => a.weight - b.weight);
  }

  const card = () => {
    const node = make("li", "", make("p", "title", make("span"), " ", make("span", "faint")), make("p", "text"), make("p", "again faint"), make("p", "step"));
    return node;
  };

  function fillCard(node, it) {
    name(node, [["is-bad", "is-busy", "is-busy"][it.weight]]);
    const [title, text, again, step] = node.children;
    write(title.firstElementChild, `${["✕", "!", "◷"][it.weight]} ${it.title}`);
    clock(title.lastElementChild, { since: it.since, before: "for " });
    write(text, it.text);
    clock(again, { until: it.until, before: "It is tried again in " });
    show(again, Boolean(it.until));
    write(step, it.step);
    show(step, Boolean(it.step));
  }

  const WORDS = { pending: "· pending", running: "▶ applying", waiting: "◷ waiting", failing: "✕ failing", done: "✓ done" };
  const ORDER = { failing: 0, waiting: 1, running: 2, pending: 3, done: 4 };

  function stages(view) {
    const groups = new Map();
    for (const it of view.components) {
      const stage = it.id.split("/")[0];
      if (!groups.has(stage)) groups.set(stage, []);
      groups.get(stage).push(it);
    }
    return [...groups].map(([stage, items]) => ({ stage, items }));
  }

  function stage() {
    const details = make("details", "", make("summary"), make("ul", "cells"), make("button", "more"));
    const node = make("li", "", details);
    details.firstElementChild.addEventListener("click", () => opened.set(node.dataset.key, !details.open));
    details.lastElementChild.type = "button";
    details.lastElementChild.addEventListener("click", () => {
      whole.add(node.dataset.key);
      draw();
    });
    return node;
  }

  function fillStage(node, { stage: number, items }, view, few) {
    const [summary, cells, more] = node.firstElementChild.children;
    const done = items.filter((it) => it.state === "done").length;
    const active = items.filter((it) => ["running", "waiting", "failing"].includes(it.state)).length;
    const times = items.flatMap((it) => [it.started, it.finished]).filter(Boolean).map(Date.parse);
    const took = done === items.length && times.length ? `, ${duration(Math.max(...times) - Math.min(...times))}` : "";
    write(summary, `Stage ${number}: ${done} of ${items.length} components done${active ? `, ${active} under way` : ""}${took}`);
    const open = opened.get(node.dataset.key) ?? (active > 0 || few);
    if (node.firstElementChild.open !== open) node.firstElementChild.open = open;
    if (!open) {
      show(more, false);
      return cells.replaceChildren();
    }
    const sorted = [...items].sort((a, b) => ORDER[a.state] - ORDER[b.state]);
    const shown = whole.has(node.dataset.key) ? sorted : sorted.slice(0, FEW);
    show(more, shown.length < items.length);
    write(more, `Show ${items.length - shown.length} more components of this stage`);
    list(cells, shown, (it) => it.id, cell, (cellNode, it) => fillCell(cellNode, it, view));
  }

  const cell = () => make("li", "", make("div", "row", make("span", "name"), make("span", "state")), make("div", "row", make("span", "count"), make("span", "time")), make("div", "why"));

  function fillCell(node, it, view) {
    const path = (view.criticalPath ?? []).includes(it.id);
    name(node, [`is-${it.state}`, path && "on-path"]);
    const [first, second, why] = node.children;
    write(first.firstElementChild, component(it.id));
    write(first.lastElementChild, WORDS[it.state] ?? it.state);
    const level = it.id.split("/")[1];
    write(second.firstElementChild, `${it.done}/${it.total} manifests, level ${level}`);
    if (it.started && !it.finished) clock(second.lastElementChild, { since: it.started });
    else {
      delete second.lastElementChild.dataset.clock;
      write(second.lastElementChild, it.finished ? duration(Date.parse(it.finished) - Date.parse(it.started)) : "");
    }
    write(why, [...(it.waiting ?? []).map(object), path && "critical path"].filter(Boolean).join(", "));
  }

  function pool(node, it) {
    const state = { Degraded: 0, Updating: 1, Paused: 1, Unknown: 2, Updated: 3 }[it.state] ?? 2;
    name(node, [["is-bad", "is-busy", "", "is-good"][state]]);
    const [title, text, , nodes] = node.children;
    write(title.firstElementChild, `${["✕", "◷", "?", "✓"][state]} ${it.name}: ${it.state}, ${it.updated} of ${it.total} nodes have its configuration`);
    clock(title.lastElementChild, { since: it.since, before: "for " });
    write(text, it.message);
    const shown = it.nodes.slice(0, FEW).map((each) => `${each.name}: ${each.phase}${each.message ? `, ${each.message}` : ""}`);
    if (it.nodes.length > FEW) shown.push(`and ${it.nodes.length - FEW} more`);
    write(nodes, shown.join("\n"));
    name(nodes, ["text"]);
  }

  // One that does not support what the cluster may be updated to.
  function held(node, it) {
    const hindrances = it.hindrances ?? [];
    fillCard(node, { weight: 1, title: `${it.namespace}/${it.name} stands in the way of updates`, text: hindrances.join("\n"), step: it.help });
  }

  const operatorCard = () => make("li", "", make("p", "title"), make("div", "said"), make("p", "step"));
  const sentence = () => make("p", "", make("span"), make("span"), make("span"));

  function operator(node, it) {
    name(node, [`is-${it.tone}`]);
    const [title, said, step] = node.children;
    const [head, ...rest] = it.sentences;
    write(title, `${{ bad: "✕", busy: "◷", good: "✓" }[it.tone]} ${head.text}`);
    list(said, rest.map((each, n) => ({ ...each, key: String(n) })), (each) => each.key, sentence, (line, each) => {
      name(line, [`depth-${each.depth}`, each.tone]);
      const [text, since, after] = line.children;
      write(text, each.text);
      clock(since, { since: each.since, before: " since " });
      write(after, each.rest);
    });
    write(step, it.whatToDo);
    show(step, Boolean(it.whatToDo));
  }

  function catalog(node, it) {
    const state = it.fails ? 0 : it.state === "READY" ? 2 : 1;
    name(node, [["is-bad", "is-busy", "is-good"][state]]);
    const [title, text, poll, step] = node.children;
    write(title.firstElementChild, `${["✕", "◷", "✓"][state]} ${it.namespace}/${it.name}: ${it.state || "not looked at yet"}`);
    clock(title.lastElementChild, { since: it.since, before: "fails for " });
    write(text, [it.content, [it.reason, it.message].filter(Boolean).join(": ")].filter(Boolean).join("\n"));
    clock(poll, { since: it.lastPoll, before: "Its image was looked for ", after: " ago" });
    show(step, false);
  }

  function installed(view) {
    const [operators, catalogs] = [told.installed?.operators ?? [], told.installed?.catalogs ?? []];
    const counts = view.installedOperators;
    show(at("operators"), operators.length + catalogs.length > 0);
    write(at("operators-count"), counts ? `${counts.installed} installed, ${counts.well} of them well` : "None is installed.");
    list(at("in-the-way"), (counts?.inTheWay ?? []).slice(0, FEW), (it) => `${it.namespace}/${it.name}`, card, held);
    list(at("operator-list"), operators.slice(0, FEW), (it) => it.key, operatorCard, operator);
    show(at("more-operators"), operators.length > FEW);
    write(at("more-operators"), operators.length > FEW ? `and ${operators.length - FEW} more: cvo olm status` : "");
    show(at("catalogs-title"), catalogs.length > 0);
    list(at("catalog-list"), catalogs, (it) => `${it.namespace}/${it.name}`, card, catalog);
  }

  function risky(node, it) {
    name(node, ["is-busy"]);
    const [title, text, , links] = node.children;
    const verdict = it.recommended === "False" ? "not recommended" : "not known whether recommended";
    write(title.firstElementChild, `${it.version}: ${verdict}${it.reason ? ` (${it.reason})` : ""}`);
    write(text, it.message);
    name(links, ["text"]);
    const known = (it.risks ?? []).filter((risk) => isLink(risk.url));
    list(links, known, (risk) => risk.name, () => make("a"), (link, risk) => {
      write(link, `${risk.name} `);
      lead(link, risk.url);
    });
  }

  function entry(node, it) {
    const cells = node.children;
    write(cells[0], it.version || it.image);
    write(cells[1], it.state === "Completed" ? "✓ Completed" : "Partial");
    write(cells[2], it.startedTime.replace("T", " "));
    write(cells[3], it.completionTime ? duration(Date.parse(it.completionTime) - Date.parse(it.startedTime)) : "–");
    write(cells[4], it.verified ? "yes" : "no");
  }

  function course(node, it) {
    const [summary, body] = node.firstElementChild.children;
    const what = it.from ? `Update ${it.from} → ${it.version}` : `Installation of ${it.version}`;
    const state = { Completed: "", Running: ", under way", Partial: ", replaced by another release" }[it.state];
    write(summary, `${what}: ${seconds(it.seconds)}${state}`);
    const [bars, path, waits, rest] = body.children;
    list(bars, it.stages, (each) => each.stage, () => make("div", "bar", make("span"), make("div", "track", make("div")), make("span")), (bar, each) => {
      write(bar.children[0], `Stage ${each.stage}`);
      bar.children[1].firstElementChild.style.width = `${Math.min(100, (100 * each.seconds) / Math.max(it.seconds, 0.001))}%`;
      write(bar.children[2], seconds(each.seconds));
    });
    write(path, it.criticalPath.length ? `Critical path: ${it.criticalPath.map((each) => `${component(each.id)} ${seconds(each.seconds)}`).join(" → ")}` : "");
    write(waits, it.longestWaits.length ? `Longest waits: ${it.longestWaits.map((each) => `${each.object} ${seconds(each.seconds)}`).join(", ")}` : "");
    write(rest, `${it.retries} failed attempts${it.acceptedRisks ? `. Accepted: ${it.acceptedRisks}` : ""}`);
  }

  function progress(view) {
    const pass = view.pass;
    const under = pass && (view.phase !== "Running" || pass.done < pass.total);
    show(at("progress"), Boolean(under));
    if (!pass) return write(at("progress-text"), view.message);
    const percent = Math.floor((100 * pass.done) / Math.max(1, pass.total));
    at("progress").setAttribute("aria-valuenow", percent);
    at("progress").firstElementChild.style.width = `${percent}%`;
    const left = view.remainingSeconds === null ? "" : view.remainingSeconds === 0 ? ", should be done soon" : `, about ${duration(view.remainingSeconds * 1000)} left`;
    const done = view.components.filter((it) => it.state === "done").length;
    write(at("progress-text"), under ? `${pass.done} of ${pass.total} manifests (${percent}%)${left}` : `${pass.done} manifests of ${done} components in place`);
  }

  function connection() {
    const cluster = clean(told?.source);
    const broken = lost ?? (told?.connected === false ? told.unreachableSince : null);
    // What was collected is as old as it is.
    const silence = told?.live ? told.view.silences?.[0] : null;
    name(at("connection"), [broken || silence ? "bad" : "faint"]);
    if (!broken && silence) return write(at("connection"), `✕ Not up to date: ${silence.message}.`);
    if (!broken) return write(at("connection"), told ? (told.live ? `Follows ${cluster}` : cluster) : "Waiting for the first state");
    if (source?.readyState === EventSource.CLOSED) return write(at("connection"), "✕ Not up to date: cvo page has been started anew, and prints another address.");
    const who = lost ? "cvo page does not answer" : `${cluster} cannot be reached`;
    write(at("connection"), `✕ Not up to date: ${who} since ${new Date(broken).toLocaleTimeString()} (${duration(Date.now() - Date.parse(broken))}). What was known then is shown, and it is tried again.`);
  }

  function draw() {
    connection();
    if (!told) return;
    const view = told.view;
    moving = view.phase === "Installing" || view.phase === "Updating";
    const title = headline(view);
    if (!at("headline").firstElementChild) at("headline").replaceChildren(make("span"), " ", make("span", "faint"));
    write(at("headline").firstElementChild, title);
    clock(at("headline").lastElementChild, { since: view.since, before: "for " });
    write(at("image"), view.target.image ? `Image ${view.target.image}` : "");
    progress(view);

    const items = blockers(view);
    show(at("attention"), items.length > 0);
    write(at("attention-title"), items.some((it) => it.weight < 2) ? "What needs attention" : "What it waits for");
    list(at("blockers"), items.slice(0, FEW), (it) => it.key, card, fillCard);
    show(at("more"), items.length > FEW);
    write(at("more"), items.length > FEW ? `and ${items.length - FEW} more` : "");
    show(at("behind"), told.live && items.some((it) => /^(wait|operator) /.test(it.key)));

    const groups = stages(view);
    show(at("graph"), groups.length > 0);
    list(at("stages"), groups, (it) => it.stage, stage, (node, it) => fillStage(node, it, view, moving && view.components.length <= 24));
    const path = (view.criticalPath ?? []).map(component);
    write(at("path"), path.length ? `Critical path: ${path.join(" → ")}` : "");

    show(at("pools"), view.pools.length > 0);
    list(at("pool-list"), view.pools, (it) => it.name, card, pool);

    installed(view);

    show(at("updates"), view.availableUpdates.length + view.riskyUpdates.length > 0 || Boolean(view.leftOut));
    write(at("recommended"), view.availableUpdates.length ? "Recommended:" : "No update is recommended.");
    list(at("available"), view.availableUpdates, (version) => version, () => make("li"), (node, version) => {
      const url = view.updateUrls?.[version];
      if (!node.firstElementChild) node.append(make(isLink(url) ? "a" : "span"));
      write(node.firstElementChild, version);
      if (isLink(url)) lead(node.firstElementChild, url);
    });
    list(at("risky"), view.riskyUpdates, (it) => it.version, card, risky);
    write(at("left-out"), view.leftOut);

    show(at("history"), view.history.length > 0);
    list(at("entries"), view.history.slice(0, FEW), (it) => `${it.image} ${it.startedTime}`, () => {
      const row = make("tr", "", make("th"), make("td"), make("td"), make("td"), make("td"));
      row.firstElementChild.scope = "row";
      return row;
    }, entry);
    const courses = view.updates ?? [];
    show(at("courses-title"), courses.length > 0);
    list(at("courses"), courses, (it) => `${it.image} ${it.started}`, () => make("li", "", make("details", "", make("summary"), make("div", "course", make("div"), make("p"), make("p"), make("p", "faint")))), course);

    show(at("unknown"), view.remarks.length > 0);
    list(at("remarks"), view.remarks.map((text, n) => ({ text, key: String(n) })), (it) => it.key, () => make("li", "faint"), (node, it) => write(node, it.text));

    const bad = items.filter((it) => it.weight === 0).length;
    const waits = items.length - bad;
    const counts = [bad && `${bad} failing`, waits && `${waits} waiting`].filter(Boolean);
    const percent = moving && view.pass ? [`${Math.floor((100 * view.pass.done) / Math.max(1, view.pass.total))}%`] : [];
    document.title = clean([view.target.version || "cluster", ...percent, ...counts, ...(lost || !told.connected || (told.live && view.silences?.length) ? ["not up to date"] : [])].join(" · "));
    write(at("status"), [title, ...counts].join(", "));
  }

  // Times pass by the second while something is under way and somebody looks, and by the minute otherwise.
  function tick() {
    // A connection that hangs has no error.
    if (source && source.readyState === EventSource.OPEN && Date.now() - heard > SILENCE) lost ??= new Date(heard).toISOString();
    if (!document.hidden) {
      tellAll();
      connection();
    }
    clearTimeout(timer);
    timer = setTimeout(tick, !document.hidden && (moving || lost) && (!told || told.live) ? 1000 : 60000);
  }

  function hear() {
    heard = Date.now();
    lost = null;
  }

  source = new EventSource(`events?token=${encodeURIComponent(token)}`);
  source.addEventListener("state", (event) => {
    told = JSON.parse(event.data);
    hear();
    const wasMoving = moving;
    draw();
    if (moving !== wasMoving) tick();
  });
  source.addEventListener("alive", () => {
    const wasLost = lost;
    hear();
    if (wasLost) draw();
  });
  source.addEventListener("error", () => {
    const first = !lost;
    lost ??= new Date().toISOString();
    draw();
    if (first) tick();
  });
  document.addEventListener("visibilitychange", () => document.hidden || tick());
  tick();
})();
