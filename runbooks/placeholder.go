package runbooks

import (
	"fmt"
	"regexp"
	"strings"

	"blastdoor"
)

// placeholder is the one expression there is: ${{ inputs.NAME }}.
var placeholder = regexp.MustCompile(`\$\{\{\s*inputs\.([A-Za-z0-9_-]+)\s*\}\}`)

// placeholders returns the names of the inputs that a text refers to. A "${{"
// that is anything else is an error: an expression that nobody evaluates must not
// pass for a value.
func placeholders(s string) ([]string, error) {
	var names []string
	for _, m := range placeholder.FindAllStringSubmatch(s, -1) {
		names = append(names, m[1])
	}
	if rest := placeholder.ReplaceAllString(s, ""); strings.Contains(rest, "${{") {
		return nil, fmt.Errorf("%s holds an expression that is not understood", quoted(s))
	}
	return names, nil
}

// fill replaces placeholders by values. A text that is one placeholder and
// nothing else becomes the value with its type; otherwise values are put in as
// text. What is put in is never looked at again, so a value cannot refer to
// another input.
func fill(s string, values blastdoor.Params) (any, error) {
	names, err := placeholders(s)
	if err != nil {
		return nil, blastdoor.Errorf(blastdoor.ErrParamsInvalid, "%v", err)
	}
	for _, name := range names {
		if _, ok := values[name]; !ok {
			return nil, blastdoor.Errorf(blastdoor.ErrUnknownInput, "there is no input %s", quoted(name))
		}
	}
	if m := placeholder.FindStringSubmatch(s); m != nil && m[0] == s {
		return values[m[1]], nil
	}
	return placeholder.ReplaceAllStringFunc(s, func(found string) string {
		return fmt.Sprint(values[placeholder.FindStringSubmatch(found)[1]])
	}), nil
}
