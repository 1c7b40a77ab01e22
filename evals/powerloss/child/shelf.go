package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"blastdoor"
	"blastdoor/simenv"
)

// The people, the place and the rules.
const (
	origin  = "powerloss"
	channel = "C0OPS"
	team    = "T0ACME"
	alice   = "U0ALICE" // asks
	bob     = "U0BOB"   // approves
	sre     = "S0SRE"
)

// service names the service of a client. Each has a host of its own, so that runs of
// different clients never meet.
func service(client int) string { return fmt.Sprintf("svc-%d", client) }

// services makes a world of protected services (even numbers), whose restart a second
// person approves, and others, whose restart needs nobody.
func services() simenv.World {
	const count = 8
	var w simenv.World
	for n := range count {
		host := fmt.Sprintf("host-%d", n)
		w.Hosts = append(w.Hosts, host)
		w.Services = append(w.Services, simenv.Service{Name: service(n), Replicas: 2, Protected: n%2 == 0, Host: host,
			Metrics: map[string]float64{"cpu_pct": 20}})
	}
	return w
}

// shelf is a catalogue with one runbook for each service: look, then restart.
type shelf struct{}

func (shelf) Runbook(_ context.Context, name string) (blastdoor.Runbook, error) {
	params := blastdoor.Params{"service": name}
	return blastdoor.Runbook{Name: name, Steps: []blastdoor.Step{
		{ID: "look", Action: "get_service_status", Params: params},
		{ID: "restart", Action: "restart_service", Params: params, DependsOn: []string{"look"}}}}, nil
}

func (shelf) Policy(context.Context) (blastdoor.Policy, error) {
	return blastdoor.Policy{Name: "powerloss", MaxAffected: 10, ApprovalAbove: 5, MaxWritesPerRun: 5, Protected: blastdoor.RuleAsk,
		ScaleToZero: blastdoor.RuleDeny, RadiusOverlap: blastdoor.RuleAsk, GraphMaxAge: time.Hour, GraphWalkBound: 100,
		ApprovalTTL: time.Hour, Approvers: blastdoor.Approvers{Groups: []string{sre}, Quorum: 1},
		Channels: []blastdoor.ChannelRule{{ID: channel, Runbooks: []string{"*"}, Requesters: blastdoor.People{Anyone: true}}},
		Menu:     []blastdoor.MenuEntry{{Action: "get_service_status"}, {Action: "restart_service"}}}, nil
}

func (shelf) Resolve(rb blastdoor.Runbook, _ map[string]string) (blastdoor.Params, []blastdoor.Step, error) {
	return nil, rb.Steps, nil
}

func (shelf) ValidateParams(blastdoor.Action, blastdoor.Params) error { return nil }

// people is a directory of members; bob is in the group that approves.
type people struct{}

func (people) Person(_ context.Context, userID, teamID string) (blastdoor.Principal, error) {
	return blastdoor.Principal{UserID: userID, TeamID: teamID, Verified: true}, nil
}

func (people) Groups(_ context.Context, userID string, groups []string) ([]string, error) {
	if userID == bob && slices.Contains(groups, sre) {
		return []string{sre}, nil
	}
	return nil, nil
}
