package simenv

import (
	"context"
	"database/sql"
	"fmt"

	"blastdoor"
)

// HostState is a host as it is now.
type HostState struct {
	Name        string `json:"name"`
	Schedulable bool   `json:"schedulable"` // false: drained
	Revision    int64  `json:"revision"`    // moves with Schedulable and with the set of services on it
}

// ServiceState is a service as it is now.
type ServiceState struct {
	Service
	Restarts int64 `json:"restarts"`
	Rollouts int64 `json:"rollouts"`
	Revision int64 `json:"revision"` // moves with everything but metrics
}

// snapshot is the whole world at one version, and the graph of it. It is never
// modified, so that any number of calls can share it.
type snapshot struct {
	version   int64
	hosts     []HostState    // sorted
	services  []ServiceState // sorted
	host      map[string]int // name to index
	service   map[string]int
	residents map[string][]int // host name to services, sorted
	graph     *blastdoor.Graph
}

// view is what a call sees: a snapshot that was current when it was compared,
// and whether faults are scripted.
type view struct {
	snap       *snapshot
	faults     bool
	ignoreKeys bool
}

type state struct {
	version    int64
	faults     int
	ignoreKeys bool
}

func scanState(row *sql.Row) (state, error) {
	var s state
	if err := row.Scan(&s.version, &s.faults, &s.ignoreKeys); err != nil {
		return state{}, fmt.Errorf("reading the state of the simulated world: %w", err)
	}
	return s, nil
}

// look reads the version of the world and returns the snapshot of that version,
// or of a newer one when it had to be loaded.
func (e *Env) look(ctx context.Context) (view, error) {
	st, err := scanState(e.stmt.state.QueryRowContext(ctx))
	if err != nil {
		return view{}, e.unavailable(err)
	}
	v := view{snap: e.cached.Load(), faults: st.faults > 0, ignoreKeys: st.ignoreKeys}
	if v.snap != nil && v.snap.version == st.version {
		return v, nil
	}
	e.loading.Lock()
	defer e.loading.Unlock()
	if v.snap = e.cached.Load(); v.snap != nil && v.snap.version >= st.version {
		return v, nil
	}
	if v.snap, err = e.load(ctx); err != nil {
		return view{}, e.unavailable(err)
	}
	e.cached.Store(v.snap)
	return v, nil
}

func (e *Env) load(ctx context.Context) (*snapshot, error) {
	tx, err := e.reader.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("loading the simulated world: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	var version int64
	if err := tx.QueryRowContext(ctx, `SELECT version FROM world`).Scan(&version); err != nil {
		return nil, fmt.Errorf("loading the simulated world: %w", err)
	}
	return loadSnapshot(ctx, tx, version)
}

// loadSnapshot reads everything inside tx, which sees one state of the file; the
// version must be of the same transaction.
func loadSnapshot(ctx context.Context, tx *sql.Tx, version int64) (*snapshot, error) {
	s := &snapshot{version: version, host: make(map[string]int), service: make(map[string]int),
		residents: make(map[string][]int)}
	for _, part := range []func(context.Context, *sql.Tx) error{s.readHosts, s.readServices, s.readDependencies, s.readMetrics} {
		if err := part(ctx, tx); err != nil {
			return nil, fmt.Errorf("loading the simulated world: %w", err)
		}
	}
	nodes, edges := s.topology()
	var err error
	s.graph, err = blastdoor.NewGraph(nodes, edges)
	return s, err
}

// eachRow calls scan for every row of a query.
func eachRow(ctx context.Context, tx *sql.Tx, query string, scan func(*sql.Rows) error) error {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err has the error that counts
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *snapshot) readHosts(ctx context.Context, tx *sql.Tx) error {
	return eachRow(ctx, tx, `SELECT name, schedulable, revision FROM hosts ORDER BY name`, func(r *sql.Rows) error {
		var h HostState
		if err := r.Scan(&h.Name, &h.Schedulable, &h.Revision); err != nil {
			return err
		}
		s.host[h.Name] = len(s.hosts)
		s.hosts = append(s.hosts, h)
		return nil
	})
}

func (s *snapshot) readServices(ctx context.Context, tx *sql.Tx) error {
	const query = `SELECT name, host, replicas, protected, version, previous_version, restarts, rollouts, revision
		FROM services ORDER BY name`
	return eachRow(ctx, tx, query, func(r *sql.Rows) error {
		v := ServiceState{Service: Service{Metrics: make(map[string]float64)}}
		if err := r.Scan(&v.Name, &v.Host, &v.Replicas, &v.Protected, &v.Version, &v.PreviousVersion,
			&v.Restarts, &v.Rollouts, &v.Revision); err != nil {
			return err
		}
		s.service[v.Name] = len(s.services)
		s.residents[v.Host] = append(s.residents[v.Host], len(s.services))
		s.services = append(s.services, v)
		return nil
	})
}

func (s *snapshot) readDependencies(ctx context.Context, tx *sql.Tx) error {
	const query = `SELECT service, depends_on, kind FROM dependencies ORDER BY service, depends_on, kind`
	return eachRow(ctx, tx, query, func(r *sql.Rows) error {
		var from string
		var d Dependency
		if err := r.Scan(&from, &d.Name, &d.Kind); err != nil {
			return err
		}
		v := &s.services[s.service[from]]
		v.DependsOn = append(v.DependsOn, d)
		return nil
	})
}

func (s *snapshot) readMetrics(ctx context.Context, tx *sql.Tx) error {
	return eachRow(ctx, tx, `SELECT service, name, value FROM metrics`, func(r *sql.Rows) error {
		var service, name string
		var value float64
		if err := r.Scan(&service, &name, &value); err != nil {
			return err
		}
		s.services[s.service[service]].Metrics[name] = value
		return nil
	})
}

func (s *snapshot) topology() ([]blastdoor.Node, []blastdoor.Edge) {
	nodes := make([]blastdoor.Node, 0, len(s.hosts)+len(s.services))
	edges := make([]blastdoor.Edge, 0, 4*len(s.services))
	for i := range s.hosts {
		nodes = append(nodes, blastdoor.Node{Name: s.hosts[i].Name, Host: true})
	}
	for i := range s.services {
		v := &s.services[i]
		nodes = append(nodes, blastdoor.Node{Name: v.Name, Protected: v.Protected})
		edges = append(edges, blastdoor.Edge{From: v.Name, To: v.Host, Kind: blastdoor.RunsOn})
		for _, d := range v.DependsOn {
			edges = append(edges, blastdoor.Edge{From: v.Name, To: d.Name, Kind: d.Kind})
		}
	}
	return nodes, edges
}
