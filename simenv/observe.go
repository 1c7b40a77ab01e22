package simenv

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"blastdoor"
)

// shownServices is how many services a summary lists; Data always has all.
const shownServices = 20

// Observe performs a read on the world as it is now.
func (e *Env) Observe(ctx context.Context, action string, params blastdoor.Params) (blastdoor.Observation, error) {
	req, err := parseRequest(action, blastdoor.Read, params)
	if err != nil {
		return blastdoor.Observation{}, err
	}
	return underFaults(ctx, e, MethodObserve, func(v view) (blastdoor.Observation, error) {
		if action == listServices {
			return observeAll(v.snap), nil
		}
		i, ok := v.snap.service[req.service]
		if !ok {
			return blastdoor.Observation{}, blastdoor.Errorf(blastdoor.ErrNotFound, "there is no service %q", req.service)
		}
		service := v.snap.services[i].clone()
		if action == getMetrics {
			return blastdoor.Observation{Summary: metricsText(&service), Data: service.Metrics}, nil
		}
		return blastdoor.Observation{Summary: statusText(&service), Data: service}, nil
	})
}

func observeAll(s *snapshot) blastdoor.Observation {
	lines := []string{fmt.Sprintf("%d services on %d hosts", len(s.services), len(s.hosts))}
	for i := range s.services {
		if i == shownServices {
			lines = append(lines, fmt.Sprintf("and %d more", len(s.services)-i))
			break
		}
		lines = append(lines, lineText(&s.services[i]))
	}
	return blastdoor.Observation{Summary: strings.Join(lines, "\n"), Data: cloneServices(s)}
}

func lineText(s *ServiceState) string {
	text := fmt.Sprintf("%s: %d replicas on %s", s.Name, s.Replicas, s.Host)
	if s.Version != "" {
		text += ", version " + s.Version
	}
	if s.Protected {
		text += ", protected"
	}
	return text
}

func statusText(s *ServiceState) string {
	needs := make([]string, 0, len(s.DependsOn))
	for _, d := range s.DependsOn {
		if d.Kind == blastdoor.Calls {
			needs = append(needs, d.Name)
		} else {
			needs = append(needs, fmt.Sprintf("%s (%s)", d.Name, d.Kind))
		}
	}
	if len(needs) == 0 {
		needs = []string{"nothing"}
	}
	return fmt.Sprintf("%s\ndepends on %s\nrestarted %d times, rolled out %d times",
		lineText(s), strings.Join(needs, ", "), s.Restarts, s.Rollouts)
}

func metricsText(s *ServiceState) string {
	if len(s.Metrics) == 0 {
		return s.Name + " reports no metrics"
	}
	parts := make([]string, 0, len(s.Metrics))
	for _, name := range slices.Sorted(maps.Keys(s.Metrics)) {
		parts = append(parts, fmt.Sprintf("%s %g", name, s.Metrics[name]))
	}
	return s.Name + ": " + strings.Join(parts, ", ")
}

// clone copies what a caller could otherwise change in the shared snapshot.
func (s ServiceState) clone() ServiceState {
	s.DependsOn = slices.Clone(s.DependsOn)
	s.Metrics = maps.Clone(s.Metrics)
	return s
}

func cloneServices(s *snapshot) []ServiceState {
	out := make([]ServiceState, len(s.services))
	for i := range s.services {
		out[i] = s.services[i].clone()
	}
	return out
}

// Services returns all services as they are now, by name. Faults do not touch it:
// it is for demos and tests that look at the world from outside.
func (e *Env) Services(ctx context.Context) ([]ServiceState, error) {
	v, err := e.look(ctx)
	if err != nil {
		return nil, err
	}
	return cloneServices(v.snap), nil
}

// Hosts returns all hosts as they are now, by name. Faults do not touch it.
func (e *Env) Hosts(ctx context.Context) ([]HostState, error) {
	v, err := e.look(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Clone(v.snap.hosts), nil
}

// Snapshot returns the whole state of hosts and services, revisions included, as
// canonical JSON: two worlds that went through the same writes and edits have
// equal snapshots. The ledger is not in it. Faults do not touch it.
func (e *Env) Snapshot(ctx context.Context) ([]byte, error) {
	v, err := e.look(ctx)
	if err != nil {
		return nil, err
	}
	return blastdoor.CanonicalJSON(struct {
		Hosts    []HostState    `json:"hosts"`
		Services []ServiceState `json:"services"`
	}{v.snap.hosts, v.snap.services})
}
