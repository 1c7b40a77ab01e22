package simenv

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"blastdoor"
)

// Names of the fields that writes change, besides blastdoor.FieldReplicas.
const (
	fieldRestarts    = "restarts"
	fieldRollouts    = "rollouts"
	fieldHost        = "host"
	fieldSchedulable = "schedulable"
)

// rehearsal is what a write would touch, change and be conditional on.
type rehearsal struct {
	targets  []string
	changes  []blastdoor.Change
	versions map[string]string
}

// rehearse computes a write on a snapshot. It is pure: the dry run shows its
// answer, and the write computes it again inside its own transaction and performs
// it only if it is still the same.
func (s *snapshot) rehearse(r request) (rehearsal, error) {
	if r.action == drainHost {
		return s.rehearseDrain(r.host)
	}
	i, ok := s.service[r.service]
	if !ok {
		return rehearsal{}, blastdoor.Errorf(blastdoor.ErrNotFound, "there is no service %q", r.service)
	}
	v := &s.services[i]
	change := blastdoor.Change{Target: v.Name}
	switch r.action {
	case restartService:
		change.Field, change.Before, change.After = fieldRestarts, decimal(v.Restarts), decimal(v.Restarts+1)
	case rolloutRestart:
		change.Field, change.Before, change.After = fieldRollouts, decimal(v.Rollouts), decimal(v.Rollouts+1)
	case scaleService:
		if v.Replicas == r.replicas {
			return rehearsal{}, blastdoor.Errorf(blastdoor.ErrNothingToDo, "%s has %d replicas already", v.Name, v.Replicas)
		}
		change.Field, change.Before, change.After = blastdoor.FieldReplicas, strconv.Itoa(v.Replicas), strconv.Itoa(r.replicas)
	}
	return rehearsal{targets: []string{v.Name}, changes: []blastdoor.Change{change},
		versions: map[string]string{v.Name: decimal(v.Revision)}}, nil
}

// rehearseDrain closes a host and sends each service on it, in the order of
// names, to the open host with the fewest replicas at that moment (of equals, the
// first by name). The destinations count among the versions: one that is closed
// or filled meanwhile would make another plan.
func (s *snapshot) rehearseDrain(name string) (rehearsal, error) {
	i, ok := s.host[name]
	if !ok {
		return rehearsal{}, blastdoor.Errorf(blastdoor.ErrNotFound, "there is no host %q", name)
	}
	h := &s.hosts[i]
	if !h.Schedulable && len(s.residents[name]) == 0 {
		return rehearsal{}, blastdoor.Errorf(blastdoor.ErrNothingToDo, "%s is drained and empty already", name)
	}
	r := rehearsal{targets: []string{name}, versions: map[string]string{name: decimal(h.Revision)}}
	if h.Schedulable {
		r.changes = append(r.changes, blastdoor.Change{Target: name, Field: fieldSchedulable, Before: "true", After: "false"})
	}
	load := s.openHosts(name)
	for _, n := range s.residents[name] {
		v := &s.services[n]
		to, ok := leastLoaded(load)
		if !ok {
			return rehearsal{}, blastdoor.Errorf(blastdoor.ErrNotApplied, "%s has nowhere to go: no other host is open", v.Name)
		}
		load[to].replicas += v.Replicas
		dest := &s.hosts[load[to].host]
		r.targets = append(r.targets, v.Name)
		r.changes = append(r.changes, blastdoor.Change{Target: v.Name, Field: fieldHost, Before: name, After: dest.Name})
		r.versions[v.Name] = decimal(v.Revision)
		r.versions[dest.Name] = decimal(dest.Revision)
	}
	slices.Sort(r.targets)
	return r, nil
}

type hostLoad struct{ host, replicas int }

// openHosts lists the hosts that can take services, in the order of names.
func (s *snapshot) openHosts(except string) []hostLoad {
	var open []hostLoad
	for i := range s.hosts {
		h := &s.hosts[i]
		if !h.Schedulable || h.Name == except {
			continue
		}
		l := hostLoad{host: i}
		for _, n := range s.residents[h.Name] {
			l.replicas += s.services[n].Replicas
		}
		open = append(open, l)
	}
	return open
}

func leastLoaded(open []hostLoad) (int, bool) {
	best := -1
	for i := range open {
		if best < 0 || open[i].replicas < open[best].replicas {
			best = i
		}
	}
	return best, best >= 0
}

// withoutVersions is the rehearsal of an infrastructure that counts nothing: the
// same before and after a restart (see IgnoreKeys).
func (r rehearsal) withoutVersions() rehearsal {
	r.versions = map[string]string{}
	r.changes = slices.Clone(r.changes)
	for i := range r.changes {
		if c := &r.changes[i]; c.Field == fieldRestarts || c.Field == fieldRollouts {
			c.Before, c.After = "not counted", "one more"
		}
	}
	return r
}

// summary says in one sentence what a write did.
func summary(r request, changes []blastdoor.Change) string {
	switch r.action {
	case restartService:
		return "Restarted " + r.service + "."
	case rolloutRestart:
		return "Restarted " + r.service + " one replica after the other."
	case scaleService:
		if len(changes) == 0 {
			return fmt.Sprintf("Scaled %s to %d replicas.", r.service, r.replicas)
		}
		return fmt.Sprintf("Scaled %s from %s to %s replicas.", r.service, changes[0].Before, changes[0].After)
	default:
		return "Drained " + r.host + moves(changes) + "."
	}
}

// moves lists at most five services that found a new host.
func moves(changes []blastdoor.Change) string {
	var parts []string
	for _, c := range changes {
		if c.Field == fieldHost {
			parts = append(parts, c.Target+" moved to "+c.After)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	if more := len(parts) - 5; more > 0 {
		parts = append(parts[:5], fmt.Sprintf("%d more moved", more))
	}
	return ": " + strings.Join(parts, ", ")
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
