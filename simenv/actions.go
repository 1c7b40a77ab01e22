package simenv

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"blastdoor"
)

// The closed table of actions.
const (
	listServices     = "list_services"
	getServiceStatus = "get_service_status"
	getMetrics       = "get_metrics"
	restartService   = "restart_service"
	rolloutRestart   = "rollout_restart"
	scaleService     = "scale_service"
	drainHost        = "drain_host"
)

// Actions returns the table of what a simulated infrastructure can do; no file
// need be open. Each call returns a copy.
func Actions() []blastdoor.Action {
	service := func() map[string]any { return nameSchema("service, by name") }
	return []blastdoor.Action{
		{Name: listServices, Kind: blastdoor.Read, Description: "List all services with replicas, host and version.",
			Schema: objectSchema(map[string]any{})},
		{Name: getServiceStatus, Kind: blastdoor.Read, Description: "Show one service: replicas, host, dependencies, restarts.",
			Schema: objectSchema(map[string]any{"service": service()}, "service")},
		{Name: getMetrics, Kind: blastdoor.Read, Description: "Show the current metrics of one service.",
			Schema: objectSchema(map[string]any{"service": service()}, "service")},
		{Name: restartService, Kind: blastdoor.Write, Description: "Restart all replicas of a service at once.",
			Schema: objectSchema(map[string]any{"service": service()}, "service")},
		{Name: rolloutRestart, Kind: blastdoor.Write, Description: "Restart the replicas of a service one after the other.",
			Schema: objectSchema(map[string]any{"service": service()}, "service")},
		{Name: scaleService, Kind: blastdoor.Write, Description: "Set the number of replicas of a service.",
			Schema: objectSchema(map[string]any{"service": service(), "replicas": map[string]any{"type": "integer",
				"minimum": 0.0, "maximum": float64(MaxReplicas), "description": "how many replicas there shall be"}},
				"service", "replicas")},
		{Name: drainHost, Kind: blastdoor.Write, Description: "Move every service off a host and keep new ones away.",
			Schema: objectSchema(map[string]any{"host": nameSchema("host, by name")}, "host")},
	}
}

// Actions returns the closed table; see the function of the same name.
func (e *Env) Actions() []blastdoor.Action { return Actions() }

// The schemas hold the types that decoded JSON has: []any, float64.

func objectSchema(properties map[string]any, required ...any) map[string]any {
	if required == nil {
		required = []any{}
	}
	return map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"properties": properties, "required": required, "additionalProperties": false}
}

func nameSchema(description string) map[string]any {
	return map[string]any{"type": "string", "pattern": NamePattern, "description": description}
}

// request is an action with its parameters, checked and typed.
type request struct {
	action   string
	service  string
	host     string
	replicas int
}

// parseRequest checks an action and its parameters against the table. It repeats
// what the schemas say, because a write must not depend on the caller's care.
func parseRequest(action string, kind blastdoor.ActionKind, params blastdoor.Params) (request, error) {
	r := request{action: action}
	actual, required := blastdoor.Write, []string(nil)
	switch action {
	case listServices:
		actual = blastdoor.Read
	case getServiceStatus, getMetrics:
		actual, required = blastdoor.Read, []string{"service"}
	case restartService, rolloutRestart:
		required = []string{"service"}
	case scaleService:
		required = []string{"service", "replicas"}
	case drainHost:
		required = []string{"host"}
	default:
		return request{}, blastdoor.Errorf(blastdoor.ErrUnknownAction, "there is no action %q", action)
	}
	if actual != kind {
		return request{}, blastdoor.Errorf(blastdoor.ErrUnknownAction, "%s is a %s, not a %s", action, actual, kind)
	}
	for name := range params {
		if !slices.Contains(required, name) {
			return request{}, blastdoor.Errorf(blastdoor.ErrParamsInvalid, "%s has no parameter %q", action, name)
		}
	}
	for _, name := range required {
		if err := r.set(name, params); err != nil {
			return request{}, err
		}
	}
	return r, nil
}

func (r *request) set(name string, params blastdoor.Params) error {
	value, ok := params[name]
	if !ok {
		return blastdoor.Errorf(blastdoor.ErrParamsInvalid, "%s needs the parameter %q", r.action, name)
	}
	if name == "replicas" {
		n, ok := wholeNumber(value)
		if !ok || n < 0 || n > MaxReplicas {
			return &blastdoor.Error{Code: blastdoor.ErrParamsInvalid, Msg: fmt.Sprintf("replicas is %v", value),
				Want: fmt.Sprintf("a whole number from 0 to %d", MaxReplicas)}
		}
		r.replicas = n
		return nil
	}
	text, ok := value.(string)
	if !ok || !namePattern.MatchString(text) {
		return &blastdoor.Error{Code: blastdoor.ErrParamsInvalid, Msg: fmt.Sprintf("%s is %q", name, fmt.Sprint(value)),
			Want: "a name of lower-case letters, digits and hyphens, at most 63"}
	}
	if name == "host" {
		r.host = text
	} else {
		r.service = text
	}
	return nil
}

// wholeNumber takes a number as Go code, JSON or YAML hands it over; 4.0 is whole,
// as in JSON Schema.
func wholeNumber(value any) (int, bool) {
	switch v := value.(type) {
	case int:
		return v, true
	case int64:
		return int(v), true
	case float64:
		return int(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	case json.Number:
		f, err := v.Float64()
		return int(f), err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
	default:
		return 0, false
	}
}
