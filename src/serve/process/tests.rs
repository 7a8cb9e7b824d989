use super::*;

#[test]
fn figures_are_read_whatever_the_program_is_called() {
    let stat = "7 (a b) R) S 1 7 7 0 -1 4194560 900 0 0 0 150 50 0 0 20 0 12 0 3000 8192000 25 18446744073709551615";
    let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
        Max open files            1024                 1048576              files\n";
    let units = Units { ticks: 100, page: 4096 };
    let figures = parse(stat, "cpu 1 2\nbtime 1000\n", limits, &units);
    assert_eq!(figures.cpu_seconds, Some(2.0));
    assert_eq!((figures.resident_bytes, figures.virtual_bytes), (Some(25.0 * 4096.0), Some(8_192_000.0)));
    assert_eq!((figures.started, figures.threads), (Some(1030.0), Some(12.0)));
    assert_eq!(figures.max_open_files, Some(1024.0));
}

#[test]
fn what_cannot_be_understood_is_left_out() {
    let units = Units { ticks: 0, page: 4096 };
    let figures = parse("", "btime x", "Max open files unlimited unlimited files", &units);
    assert_eq!((figures.cpu_seconds, figures.resident_bytes, figures.started), (None, None, None));
    assert_eq!((figures.virtual_bytes, figures.max_open_files, figures.threads), (None, None, None));
}

#[test]
fn this_process_has_all_figures() {
    let figures = read();
    let all = [
        figures.cpu_seconds,
        figures.resident_bytes,
        figures.virtual_bytes,
        figures.started,
        figures.open_files,
        figures.max_open_files,
        figures.threads,
    ];
    assert!(all.iter().all(Option::is_some), "{all:?}");
    let started = figures.started.unwrap();
    let now = jiff::Timestamp::now().as_duration().as_secs_f64();
    assert!(started > now - 86_400.0 && started < now + 2.0, "{started}");
}
