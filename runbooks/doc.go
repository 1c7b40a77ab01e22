// Package runbooks reads the files that operators write: runbooks and the policy.
//
// Loading is strict and total. An unknown key, a key given twice, an alias, a
// file that is too large or nested too deeply are errors; all problems of a file
// are reported at once, each with its file, line and step, what is wrong and what
// would be right. A Library reads the files fresh on every call, so that a freeze
// begun a second ago counts, and a file that does not load is an error and never
// the version before it. Values that people type are converted by their declared
// type and never reach a shell. The package must not know of Slack, runs, stores
// or any particular environment: actions and their schemas are data given to it.
package runbooks
