// Package archtest holds the architecture against the code: who may import whom,
// where the heavy libraries may be used, and where the wall clock may be read. It
// reads import clauses with go/build in its own process. It must not run any code
// of the project.
package archtest
