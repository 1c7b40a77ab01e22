package simenv

import (
	"context"
	"database/sql"
	"fmt"

	"blastdoor"
)

// The edits below change the world behind everybody's back, as other people and
// other tools do. They leave no trace in the ledger. Each moves the version of
// the world and the revisions of the services and hosts that it concerns, so that
// a plan made before no longer fits. An unknown name is ErrNotFound.

// SetReplicas sets the number of replicas of a service, 0 to MaxReplicas.
func (e *Env) SetReplicas(ctx context.Context, service string, replicas int) error {
	if replicas < 0 || replicas > MaxReplicas {
		return blastdoor.Errorf(blastdoor.ErrParamsInvalid, "replicas is %d, want 0 to %d", replicas, MaxReplicas)
	}
	return e.edit(ctx, "setting replicas of "+service, func(x *edit) {
		x.one(service, `UPDATE services SET replicas = ?2, revision = revision + 1 WHERE name = ?1`, service, replicas)
	})
}

// SetProtected marks a service as protected, or not.
func (e *Env) SetProtected(ctx context.Context, service string, protected bool) error {
	return e.edit(ctx, "protecting "+service, func(x *edit) {
		x.one(service, `UPDATE services SET protected = ?2, revision = revision + 1 WHERE name = ?1`, service, protected)
	})
}

// SetSchedulable opens a host for services, or closes it. Services stay where they are.
func (e *Env) SetSchedulable(ctx context.Context, host string, schedulable bool) error {
	return e.edit(ctx, "opening or closing "+host, func(x *edit) {
		x.one(host, `UPDATE hosts SET schedulable = ?2, revision = revision + 1 WHERE name = ?1`, host, schedulable)
	})
}

// SetMetric sets a metric of a service. It moves the version of the world but not
// the revision of the service: a metric is watched, not conditional on, and an
// approval that every tick of a gauge voids would never be used.
func (e *Env) SetMetric(ctx context.Context, service, metric string, value float64) error {
	if !metricPattern.MatchString(metric) {
		return blastdoor.Errorf(blastdoor.ErrParamsInvalid, "%q is not the name of a metric", metric)
	}
	return e.edit(ctx, "setting "+metric+" of "+service, func(x *edit) {
		x.one(service, `INSERT INTO metrics (service, name, value) SELECT name, ?2, ?3 FROM services WHERE name = ?1
			ON CONFLICT (service, name) DO UPDATE SET value = excluded.value`, service, metric, value)
	})
}

// AddDependency makes a service depend on another one; the revisions of both
// move. A dependency that exists already is ErrNothingToDo.
func (e *Env) AddDependency(ctx context.Context, service string, d Dependency) error {
	return e.edit(ctx, "adding a dependency to "+service, func(x *edit) {
		x.bump(service)
		x.bump(d.Name)
		n := x.exec(`INSERT INTO dependencies (service, depends_on, kind) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			service, d.Name, string(d.Kind))
		x.require(n == 1, blastdoor.ErrNothingToDo, "%s depends on %s already", service, d.Name)
	})
}

// RemoveDependency ends a dependency; the revisions of both services move.
func (e *Env) RemoveDependency(ctx context.Context, service string, d Dependency) error {
	return e.edit(ctx, "removing a dependency of "+service, func(x *edit) {
		x.bump(service)
		x.bump(d.Name)
		n := x.exec(`DELETE FROM dependencies WHERE service = ? AND depends_on = ? AND kind = ?`,
			service, d.Name, string(d.Kind))
		x.require(n == 1, blastdoor.ErrNotFound, "%s does not depend on %s (%s)", service, d.Name, d.Kind)
	})
}

// AddService adds a service to the world; the revisions of its host and of the
// services it depends on move.
func (e *Env) AddService(ctx context.Context, s Service) error {
	v, err := e.look(ctx)
	if err != nil {
		return err
	}
	if err := v.snap.world(s).Validate(); err != nil {
		return fmt.Errorf("adding service %s: %w", s.Name, err)
	}
	return e.edit(ctx, "adding service "+s.Name, func(x *edit) {
		x.do(func() error { return insertService(x.ctx, x.tx, &s) })
		x.do(func() error { return insertDependencies(x.ctx, x.tx, &s) })
		x.one(s.Host, bumpHostSQL, s.Host)
		for _, d := range s.DependsOn {
			x.bump(d.Name)
		}
	})
}

// world is the world of a snapshot with one service more, to be validated.
func (s *snapshot) world(more Service) World {
	w := World{Hosts: make([]string, len(s.hosts)), Services: make([]Service, 0, len(s.services)+1)}
	for i := range s.hosts {
		w.Hosts[i] = s.hosts[i].Name
	}
	for i := range s.services {
		w.Services = append(w.Services, s.services[i].Service)
	}
	w.Services = append(w.Services, more)
	return w
}

// edit is one change of the world from outside; the first error stops it.
type edit struct {
	ctx context.Context
	tx  *sql.Tx
	err error
}

func (e *Env) edit(ctx context.Context, what string, change func(*edit)) error {
	err := e.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		x := &edit{ctx: ctx, tx: tx}
		change(x)
		x.exec(bumpWorldSQL)
		return x.err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (x *edit) do(step func() error) {
	if x.err == nil {
		x.err = step()
	}
}

// exec runs a statement and returns how many rows it touched.
func (x *edit) exec(query string, args ...any) (rows int64) {
	x.do(func() error {
		result, err := x.tx.ExecContext(x.ctx, query, args...)
		if err != nil {
			return err
		}
		rows, err = result.RowsAffected()
		return err
	})
	return rows
}

func (x *edit) require(ok bool, code blastdoor.Code, format string, args ...any) {
	x.do(func() error {
		if ok {
			return nil
		}
		return blastdoor.Errorf(code, format, args...)
	})
}

// one runs a statement that must touch the one row of name.
func (x *edit) one(name, query string, args ...any) {
	n := x.exec(query, args...)
	x.require(n == 1, blastdoor.ErrNotFound, "there is no %q", name)
}

func (x *edit) bump(service string) { x.one(service, bumpServiceSQL, service) }
