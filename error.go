package blastdoor

import (
	"errors"
	"fmt"
	"strings"
)

// Code is a member of a closed set that machines decide on and people can search for.
type Code string

// Load errors of a runbook or a policy (DESIGN section 4).
const (
	ErrInvalidRunbook    Code = "invalid_runbook"
	ErrDuplicateID       Code = "duplicate_id"
	ErrCycle             Code = "cycle"
	ErrUnknownDependency Code = "unknown_dependency"
	ErrUnknownAction     Code = "unknown_action"
	ErrUnknownInput      Code = "unknown_input"
	ErrParamsInvalid     Code = "params_invalid"
	ErrInvalidPolicy     Code = "invalid_policy"
)

// LoadErrors lists every code that loading a runbook can report.
func LoadErrors() []Code {
	return []Code{ErrInvalidRunbook, ErrDuplicateID, ErrCycle, ErrUnknownDependency,
		ErrUnknownAction, ErrUnknownInput, ErrParamsInvalid}
}

// Errors that a caller decides on.
const (
	// ErrConflict: the history is longer than the writer believed, or a target
	// is locked by another run. Nothing was written.
	ErrConflict Code = "conflict"
	// ErrTargetLocked: another run has a live intent on one of the targets.
	ErrTargetLocked Code = "target_locked"
	ErrNotFound     Code = "not_found"
	// ErrNotApplied: the environment says for certain that the write did not happen.
	ErrNotApplied Code = "not_applied"
	// ErrWorldMoved: an expected version has moved; the write did not happen.
	ErrWorldMoved Code = "world_moved"
	// ErrNothingToDo: the rehearsal found that the write would change nothing.
	ErrNothingToDo Code = "nothing_to_do"
	// ErrUnavailable: try again later; nothing was decided.
	ErrUnavailable Code = "unavailable"
	// ErrIntegrity: stored data does not verify. Nothing may be done on it.
	ErrIntegrity Code = "integrity"
	// ErrNotPosted: the message is being posted and its address is not known yet.
	ErrNotPosted Code = "not_posted"
	// ErrNotAllowed: this person may not do this.
	ErrNotAllowed Code = "not_allowed"
	// ErrTooLate: the run has gone too far for this (a write is in flight, or it has ended).
	ErrTooLate Code = "too_late"
	// ErrUsage: the command was not understood.
	ErrUsage Code = "usage"
)

// Error is an error that a caller decides on by Code and that a person may be
// shown by Msg. Err, when set, is the cause for operators and is never shown in Slack.
type Error struct {
	Code Code
	// Where is the place: "drain-host.yaml:12 (step drain)", or empty.
	Where string
	// Msg says what is wrong, for a person.
	Msg string
	// Want says what would be right, or what to do next, or is empty.
	Want string
	Err  error
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Where != "" {
		b.WriteString(e.Where + ": ")
	}
	b.WriteString(string(e.Code))
	if e.Msg != "" {
		b.WriteString(": " + e.Msg)
	}
	if e.Want != "" {
		b.WriteString(" (" + e.Want + ")")
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an *Error with a formatted message. It returns error, not *Error,
// so that a nil can never hide in an interface.
func Errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the first *Error in err's chain, or "".
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Is reports whether err carries code.
func (c Code) Is(err error) bool { return err != nil && CodeOf(err) == c }
