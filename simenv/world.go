package simenv

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	"blastdoor"
)

// MaxReplicas is the most replicas that a service can have.
const MaxReplicas = 50

// NamePattern is what the names of services and hosts must match.
const NamePattern = `^[a-z0-9][a-z0-9-]{0,62}$`

var (
	namePattern   = regexp.MustCompile(NamePattern)
	metricPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
)

// World is the infrastructure that a file starts with.
type World struct {
	Hosts    []string  `yaml:"hosts" json:"hosts"`
	Services []Service `yaml:"services" json:"services"`
}

// Service is one service of a world.
type Service struct {
	Name            string             `yaml:"name" json:"name"`
	Replicas        int                `yaml:"replicas" json:"replicas"`
	Protected       bool               `yaml:"protected" json:"protected,omitempty"`
	Host            string             `yaml:"host" json:"host"`
	DependsOn       []Dependency       `yaml:"depends_on" json:"depends_on,omitempty"`
	Version         string             `yaml:"version" json:"version,omitempty"`
	PreviousVersion string             `yaml:"previous_version" json:"previous_version,omitempty"`
	Metrics         map[string]float64 `yaml:"metrics" json:"metrics,omitempty"`
}

// Dependency says that a service needs another one. In YAML it is a name (then
// the kind is calls) or a mapping of name and kind.
type Dependency struct {
	Name string             `json:"name"`
	Kind blastdoor.EdgeKind `json:"kind"`
}

// Validate reports everything that is wrong with the world, joined, each an
// *blastdoor.Error whose Where is a path such as services[3].host.
func (w World) Validate() error {
	var errs []error
	for _, p := range w.problems() {
		errs = append(errs, p.at(p.path()))
	}
	return errors.Join(errs...)
}

// problem is one thing that is wrong with a world. Steps lead to the place, as
// keys and indexes, so that a path or a line can be made of them.
type problem struct {
	steps []any
	code  blastdoor.Code
	msg   string
	want  string
}

func (p problem) at(where string) error {
	return &blastdoor.Error{Code: p.code, Where: where, Msg: p.msg, Want: p.want}
}

func (p problem) path() string {
	var b strings.Builder
	for _, step := range p.steps {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			fmt.Fprint(&b, step)
		}
	}
	return b.String()
}

// worldCheck collects the problems of one world.
type worldCheck struct {
	hosts    map[string]bool
	services map[string]bool
	found    []problem
}

func (w World) problems() []problem {
	c := worldCheck{hosts: make(map[string]bool, len(w.Hosts)), services: make(map[string]bool, len(w.Services))}
	for i, name := range w.Hosts {
		c.name("host", name, c.hosts, "hosts", i)
	}
	for i, s := range w.Services {
		c.name("service", s.Name, c.services, "services", i, "name")
	}
	for i := range w.Services {
		c.service(i, &w.Services[i])
	}
	if len(w.Hosts) == 0 {
		c.add(blastdoor.ErrParamsInvalid, "there is no host", "list at least one under hosts", "hosts")
	}
	if len(w.Services) == 0 {
		c.add(blastdoor.ErrParamsInvalid, "there is no service", "list at least one under services", "services")
	}
	return c.found
}

func (c *worldCheck) add(code blastdoor.Code, msg, want string, steps ...any) {
	c.found = append(c.found, problem{steps: steps, code: code, msg: msg, want: want})
}

// name checks a name and enters it. Hosts and services share one name space,
// because a graph and a lock know them by name alone.
func (c *worldCheck) name(what, name string, into map[string]bool, steps ...any) {
	switch {
	case !namePattern.MatchString(name):
		c.add(blastdoor.ErrParamsInvalid, fmt.Sprintf("%q is not a name", name),
			"lower-case letters, digits and hyphens, at most 63, not starting with a hyphen", steps...)
	case c.hosts[name] || c.services[name]:
		c.add(blastdoor.ErrDuplicateID, fmt.Sprintf("%s %q is the second thing of that name", what, name),
			"hosts and services each need a name of their own", steps...)
	}
	into[name] = true
}

func (c *worldCheck) service(i int, s *Service) {
	if s.Replicas < 0 || s.Replicas > MaxReplicas {
		c.add(blastdoor.ErrParamsInvalid, fmt.Sprintf("service %q has %d replicas", s.Name, s.Replicas),
			fmt.Sprintf("a whole number from 0 to %d", MaxReplicas), "services", i, "replicas")
	}
	if !c.hosts[s.Host] {
		c.add(blastdoor.ErrUnknownDependency, fmt.Sprintf("service %q is on unknown host %q", s.Name, s.Host),
			"a name from hosts", "services", i, "host")
	}
	seen := make(map[Dependency]bool, len(s.DependsOn))
	for j, d := range s.DependsOn {
		c.dependency(s.Name, d, seen, "services", i, "depends_on", j)
	}
	for name, value := range s.Metrics {
		if !metricPattern.MatchString(name) || math.IsNaN(value) || math.IsInf(value, 0) {
			c.add(blastdoor.ErrParamsInvalid, fmt.Sprintf("service %q has metric %q = %v", s.Name, name, value),
				"a name of lower-case letters, digits and underscores, and a finite number", "services", i, "metrics")
		}
	}
}

func (c *worldCheck) dependency(service string, d Dependency, seen map[Dependency]bool, steps ...any) {
	switch {
	case !c.services[d.Name]:
		c.add(blastdoor.ErrUnknownDependency, fmt.Sprintf("service %q depends on unknown service %q", service, d.Name),
			"the name of a service in this world", steps...)
	case d.Name == service:
		c.add(blastdoor.ErrCycle, fmt.Sprintf("service %q depends on itself", service), "drop it", steps...)
	case d.Kind != blastdoor.Calls && d.Kind != blastdoor.Publishes && d.Kind != blastdoor.Consumes:
		c.add(blastdoor.ErrParamsInvalid, fmt.Sprintf("dependency of %q on %q has unknown kind %q", service, d.Name, d.Kind),
			"calls, publishes or consumes", steps...)
	case seen[d]:
		c.add(blastdoor.ErrDuplicateID, fmt.Sprintf("service %q names its dependency on %q twice", service, d.Name),
			"once is enough", steps...)
	}
	seen[d] = true
}
