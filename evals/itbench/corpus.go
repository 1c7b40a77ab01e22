package itbench

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"blastdoor"
)

//go:embed testdata/graph.json testdata/cases.jsonl
var shipped embed.FS

// topology is a dependency graph as a file gives it.
type topology struct {
	Source  string `json:"source"`
	Licence string `json:"licence"`
	Note    string `json:"note"`
	Edges   []edge `json:"edges"`
}

type edge struct {
	From string             `json:"from"`
	To   string             `json:"to"`
	Kind blastdoor.EdgeKind `json:"kind"`
}

// incident is what people found to have happened: which services were at fault,
// and who showed it.
type incident struct {
	ID     string   `json:"id"`
	Roots  []string `json:"roots"`
	Alerts []alert  `json:"alerts"`
	// Propagations are pairs "from, to": a fault of the first was felt by the
	// second. Some ends are no services.
	Propagations [][2]string `json:"propagations"`
}

type alert struct {
	Service string    `json:"service"`
	Alert   string    `json:"alert"`
	Kind    alertKind `json:"kind"`
}

type alertKind string

const (
	failing alertKind = "error"
	starved alertKind = "starved" // requests or data stopped coming
)

// load reads a graph and incidents; an empty name means the shipped file.
func load(graphFile, casesFile string) (topology, []incident, error) {
	var t topology
	data, name, err := read(graphFile, "graph.json")
	if err != nil {
		return t, nil, err
	}
	if t, err = readTopology(name, data); err != nil {
		return t, nil, err
	}
	if data, name, err = read(casesFile, "cases.jsonl"); err != nil {
		return t, nil, err
	}
	incidents, err := readIncidents(name, data)
	return t, incidents, err
}

func read(file, standard string) (data []byte, name string, err error) {
	if file != "" {
		data, err = os.ReadFile(file)
		return data, file, err
	}
	data, err = fs.ReadFile(shipped, "testdata/"+standard)
	return data, standard, err
}

func readTopology(name string, data []byte) (topology, error) {
	var t topology
	if err := strict(data, &t); err != nil {
		return t, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(t.Edges) == 0 {
		return t, fmt.Errorf("reading %s: it has no edges", name)
	}
	for i, e := range t.Edges {
		switch {
		case e.From == "" || e.To == "":
			return t, fmt.Errorf("reading %s: edge %d needs both from and to", name, i+1)
		case e.Kind != blastdoor.Calls && e.Kind != blastdoor.Publishes && e.Kind != blastdoor.Consumes:
			return t, fmt.Errorf("reading %s: edge %d (%s to %s) has kind %q; it must be calls, publishes or consumes", name, i+1, e.From, e.To, e.Kind)
		}
	}
	return t, nil
}

// readIncidents reads one incident a line; empty lines are passed over.
func readIncidents(name string, data []byte) ([]incident, error) {
	var all []incident
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var c incident
		err := strict(lines.Bytes(), &c)
		if err == nil {
			err = c.check(all)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s, line %d: %w", name, n, err)
		}
		all = append(all, c)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("reading %s: it has no incidents", name)
	}
	return all, nil
}

func (c *incident) check(before []incident) error {
	switch {
	case c.ID == "":
		return errors.New("the incident has no id")
	case slices.ContainsFunc(before, func(other incident) bool { return other.ID == c.ID }):
		return fmt.Errorf("there is an incident %q already", c.ID)
	case len(c.Roots) == 0 || slices.Contains(c.Roots, ""):
		return fmt.Errorf("incident %s needs the names of its roots", c.ID)
	case len(c.Alerts) == 0:
		return fmt.Errorf("incident %s has no alerts", c.ID)
	}
	for i, a := range c.Alerts {
		if a.Service == "" {
			return fmt.Errorf("alert %d of incident %s names no service", i+1, c.ID)
		}
		if a.Kind != failing && a.Kind != starved {
			return fmt.Errorf("alert %d of incident %s has kind %q; it must be error or starved", i+1, c.ID, a.Kind)
		}
	}
	return nil
}

// strict decodes one JSON value in which every key is known.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the value")
	}
	return nil
}

// graph builds the graph that the verifier walks.
func (t topology) graph() (*blastdoor.Graph, error) {
	var nodes []blastdoor.Node
	var edges []blastdoor.Edge
	for _, name := range t.services() {
		nodes = append(nodes, blastdoor.Node{Name: name})
	}
	for _, e := range t.Edges {
		edges = append(edges, blastdoor.Edge{From: e.From, To: e.To, Kind: e.Kind})
	}
	return blastdoor.NewGraph(nodes, edges)
}

// services are the names in the graph, sorted.
func (t topology) services() []string {
	var names []string
	for _, e := range t.Edges {
		names = append(names, e.From, e.To)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
