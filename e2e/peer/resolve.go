// Resolves namespaces with the resolver of operator-lifecycle-manager, for whoever compares what is chosen. It stands in a checkout
// of that project, as cmd/resolve/main.go, and uses only what its packages export.
//
// Each line that is read is a world as JSON: catalogs with a bundle for each channel, installed operators, Subscriptions. Each line
// that is written is the answers to it. The resolver iterates over maps, so that each world is resolved several times; answers that
// differ are all told, each with how often the search went back at least.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/api/client/clientset/versioned/fake"
	v1listers "github.com/operator-framework/operator-lifecycle-manager/pkg/api/client/listers/operators/v1"
	listers "github.com/operator-framework/operator-lifecycle-manager/pkg/api/client/listers/operators/v1alpha1"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/lib/operatorlister"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/operator-framework/operator-registry/pkg/client"
	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

const (
	// How often a world is resolved, and how often as long as the expected answer does not come.
	few  = 8
	many = 300
)

type property struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

type world struct {
	// The namespace itself first.
	Namespaces    []string       `json:"namespaces"`
	Catalogs      []offered      `json:"catalogs"`
	Installed     []installed    `json:"installed"`
	Subscriptions []subscription `json:"subscriptions"`
	// As it is told; nil for none.
	Expected []string `json:"expected"`
}

type offered struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Priority  int               `json:"priority"`
	Defaults  map[string]string `json:"defaults"`
	Bundles   []bundle          `json:"bundles"`
}

type bundle struct {
	Name       string     `json:"name"`
	Package    string     `json:"package"`
	Channel    string     `json:"channel"`
	Version    string     `json:"version"`
	Replaces   string     `json:"replaces"`
	Skips      []string   `json:"skips"`
	SkipRange  string     `json:"skipRange"`
	Properties []property `json:"properties"`
}

type installed struct {
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Properties []property `json:"properties"`
}

type subscription struct {
	Name         string `json:"name"`
	Package      string `json:"package"`
	Channel      string `json:"channel"`
	Namespace    string `json:"catalogNamespace"`
	Catalog      string `json:"catalog"`
	StartingCSV  string `json:"startingCSV"`
	InstalledCSV string `json:"installedCSV"`
}

type answer struct {
	// Namespace and name of the catalog, channel, name and what it replaces, with blanks between them.
	Chosen []string `json:"chosen"`
	Error  string   `json:"error,omitempty"`
	Back   int      `json:"back"`
}

// The registry of a catalog, without a server.
type served struct {
	client.Interface
	offered
}

type stream struct {
	bundles []*api.Bundle
}

func (s *stream) Recv() (*api.Bundle, error) {
	if len(s.bundles) == 0 {
		return nil, io.EOF
	}
	next := s.bundles[0]
	s.bundles = s.bundles[1:]
	return next, nil
}

func (s *served) ListBundles(context.Context) (*client.BundleIterator, error) {
	var all []*api.Bundle
	for _, b := range s.Bundles {
		var properties []*api.Property
		for _, p := range b.Properties {
			properties = append(properties, &api.Property{Type: p.Type, Value: string(p.Value)})
		}
		all = append(all, &api.Bundle{
			CsvName: b.Name, PackageName: b.Package, ChannelName: b.Channel, Version: b.Version, Replaces: b.Replaces,
			Skips: b.Skips, SkipRange: b.SkipRange, Properties: properties, BundlePath: "example.com/" + b.Name,
		})
	}
	return client.NewBundleIterator(&stream{all}), nil
}

func (s *served) GetPackage(_ context.Context, name string) (*api.Package, error) {
	return &api.Package{Name: name, DefaultChannelName: s.Defaults[name]}, nil
}

type clients map[registry.CatalogKey]client.Interface

func (c clients) ClientsForNamespaces(...string) map[registry.CatalogKey]client.Interface {
	return c
}

// Counts the ways back, each of which the solver tells with a text that begins so.
type counter struct{ back int }

func (c *counter) Levels() []logrus.Level { return logrus.AllLevels }

func (c *counter) Fire(entry *logrus.Entry) error {
	if strings.HasPrefix(entry.Message, "---") {
		c.back++
	}
	return nil
}

func indexer() cache.Indexer {
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

func (w *world) answers(logger *logrus.Logger, ways *counter) ([]answer, error) {
	namespace := w.Namespaces[0]
	catalogs, csvs, subscriptions, groups := indexer(), indexer(), indexer(), indexer()
	connected := clients{}
	for _, c := range w.Catalogs {
		source := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
		source.Spec.Priority = c.Priority
		_ = catalogs.Add(source)
		connected[registry.CatalogKey{Namespace: c.Namespace, Name: c.Name}] = &served{offered: c}
	}
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "group"}}
	_ = groups.Add(group)
	for _, i := range w.Installed {
		text, err := json.Marshal(map[string]any{"properties": i.Properties})
		if err != nil {
			return nil, err
		}
		v, err := semver.Parse(i.Version)
		if err != nil {
			return nil, err
		}
		csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: i.Name, Annotations: map[string]string{"operatorframework.io/properties": string(text)},
		}}
		csv.Spec.Version = version.OperatorVersion{Version: v}
		csv.Status.Phase = v1alpha1.CSVPhaseSucceeded
		_ = csvs.Add(csv)
	}
	var objects []runtime.Object
	var subs []*v1alpha1.Subscription
	for _, s := range w.Subscriptions {
		sub := &v1alpha1.Subscription{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.Name},
			Spec: &v1alpha1.SubscriptionSpec{
				Package: s.Package, Channel: s.Channel, CatalogSource: s.Catalog, CatalogSourceNamespace: s.Namespace,
				StartingCSV: s.StartingCSV,
			},
		}
		sub.Status.InstalledCSV = s.InstalledCSV
		_ = subscriptions.Add(sub)
		objects = append(objects, sub)
		subs = append(subs, sub)
	}
	lister := operatorlister.NewLister()
	lister.OperatorsV1alpha1().RegisterCatalogSourceLister(metav1.NamespaceAll, listers.NewCatalogSourceLister(catalogs))
	lister.OperatorsV1alpha1().RegisterClusterServiceVersionLister(metav1.NamespaceAll, listers.NewClusterServiceVersionLister(csvs))
	lister.OperatorsV1alpha1().RegisterSubscriptionLister(metav1.NamespaceAll, listers.NewSubscriptionLister(subscriptions))
	lister.OperatorsV1().RegisterOperatorGroupLister(metav1.NamespaceAll, v1listers.NewOperatorGroupLister(groups))
	sources := resolver.SourceProviderFromRegistryClientProvider(connected, listers.NewCatalogSourceLister(catalogs), logger)
	known := resolver.NewOperatorCacheProvider(lister, fake.NewSimpleClientset(objects...), sources, logger)
	found := map[string]*answer{}
	missing := w.Expected != nil
	for round := 0; round < few || missing && round < many; round++ {
		ways.back = 0
		chosen, err := resolver.NewDefaultResolver(known, logger).Resolve(w.Namespaces, subs)
		one := answer{Chosen: []string{}, Back: ways.back}
		key := "error"
		if err != nil {
			one.Error = err.Error()
		} else {
			for _, c := range chosen {
				catalog := c.SourceInfo.Catalog
				text := strings.Join([]string{catalog.Namespace, catalog.Name, c.SourceInfo.Channel, c.Name, c.Replaces}, " ")
				one.Chosen = append(one.Chosen, text)
			}
			slices.Sort(one.Chosen)
			key = strings.Join(one.Chosen, "\n")
			missing = missing && !slices.Equal(one.Chosen, w.Expected)
		}
		if before, ok := found[key]; !ok || one.Back < before.Back {
			found[key] = &one
		}
	}
	var answers []answer
	for _, one := range found {
		answers = append(answers, *one)
	}
	return answers, nil
}

func main() {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	logger.SetLevel(logrus.DebugLevel)
	ways := &counter{}
	logger.AddHook(ways)
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var w world
		if err := json.Unmarshal(line, &w); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		begun := time.Now()
		answers, err := w.answers(logger, ways)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		text, _ := json.Marshal(map[string]any{"answers": answers, "seconds": time.Since(begun).Seconds()})
		fmt.Println(string(text))
	}
}
