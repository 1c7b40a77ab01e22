package runbooks

import (
	"embed"
	"io/fs"
)

// Names of the shipped policies, as Options.PolicyFile takes them.
const (
	ShippedPolicy = "shipped:policy.yaml"
	StrictPolicy  = "shipped:policy-strict.yaml"
)

//go:embed shipped/*.yaml
var shipped embed.FS

// Shipped returns the runbooks and policies that come with the program.
func Shipped() fs.FS {
	sub, err := fs.Sub(shipped, "shipped")
	if err != nil {
		panic(err) // only for a name that is no path, and this one is a constant
	}
	return sub
}
