package simenv

import (
	"fmt"
	"math/rand/v2"

	"blastdoor"
)

// GenerateWorld makes a big world, the same for the same arguments. Services are
// named svc-000000 upwards and depend only on lower numbers. With at least
// services-1 edges every service depends, perhaps through others, on svc-000000,
// so that a restart of it is felt by all. There are no more edges than pairs.
func GenerateWorld(seed uint64, services, edges int) World {
	rng := rand.New(rand.NewPCG(seed, 0x626c617374)) // the second word only has to be fixed
	w := World{Hosts: make([]string, services/8+2), Services: make([]Service, services)}
	for i := range w.Hosts {
		w.Hosts[i] = fmt.Sprintf("host-%05d", i)
	}
	for i := range w.Services {
		w.Services[i] = Service{
			Name:     serviceName(i),
			Replicas: 1 + rng.IntN(8),
			Host:     w.Hosts[rng.IntN(len(w.Hosts))],
			Version:  fmt.Sprintf("1.%d.%d", rng.IntN(30), rng.IntN(10)),
			Metrics: map[string]float64{"cpu_pct": float64(rng.IntN(90)), "mem_pct": float64(rng.IntN(90)),
				"error_rate_pct": float64(rng.IntN(20)) / 10, "p95_ms": float64(5 + rng.IntN(400))},
		}
	}
	connect(rng, w.Services, edges)
	return w
}

func serviceName(i int) string { return fmt.Sprintf("svc-%06d", i) }

// connect first gives each service one dependency, then spreads the rest.
func connect(rng *rand.Rand, services []Service, edges int) {
	n := len(services)
	edges = min(edges, n*(n-1)/2)
	used := make(map[[2]int]bool, edges)
	for len(used) < edges {
		from := 1 + len(used)
		if from >= n {
			from = 1 + rng.IntN(n-1)
		}
		to := rng.IntN(from)
		for used[[2]int{from, to}] { // the next free pair, so that dense worlds come to an end
			if to++; to == from {
				from, to = 1+from%(n-1), 0
			}
		}
		used[[2]int{from, to}] = true
		kind := blastdoor.Calls
		switch rng.IntN(20) {
		case 0:
			kind = blastdoor.Publishes
		case 1:
			kind = blastdoor.Consumes
		}
		services[from].DependsOn = append(services[from].DependsOn, Dependency{Name: services[to].Name, Kind: kind})
	}
}
