package runbooks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"blastdoor"
)

// Resolve converts what a person typed into typed inputs, defaults included, and
// returns the runbook's steps with every ${{ inputs.x }} replaced. All that is
// wrong is told in one error: ErrUnknownInput when an input does not exist, else
// ErrParamsInvalid. The runbook is not changed.
func Resolve(rb blastdoor.Runbook, typed map[string]string) (blastdoor.Params, []blastdoor.Step, error) {
	inputs, err := inputsOf(rb, typed)
	if err != nil {
		return nil, nil, err
	}
	steps := make([]blastdoor.Step, len(rb.Steps))
	for i, step := range rb.Steps {
		if step.Params, err = filled(step.Params, inputs); err != nil {
			return nil, nil, fmt.Errorf("resolving step %s: %w", step.ID, err)
		}
		step.DependsOn = slices.Clone(step.DependsOn)
		steps[i] = step
	}
	return inputs, steps, nil
}

func inputsOf(rb blastdoor.Runbook, typed map[string]string) (blastdoor.Params, error) {
	var names, wrong []string
	code := blastdoor.ErrParamsInvalid
	inputs := blastdoor.Params{}
	for i := range rb.Inputs {
		in := &rb.Inputs[i]
		names = append(names, in.Name)
		text, given := typed[in.Name]
		switch {
		case !given && in.Default == nil:
			wrong = append(wrong, in.Name+" is missing")
		case !given:
			inputs[in.Name] = in.Default
		default:
			value, err := convert(in, text)
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("%s: %v", in.Name, err))
			}
			inputs[in.Name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(typed)) {
		if slices.Contains(names, name) {
			continue
		}
		code = blastdoor.ErrUnknownInput
		msg := "there is no input " + quoted(name)
		if hint := didYouMean(name, names); hint != "" {
			msg += "; " + hint
		}
		wrong = append(wrong, msg)
	}
	if wrong != nil {
		return nil, &blastdoor.Error{Code: code, Msg: strings.Join(wrong, "; "), Want: rb.Name + " takes " + Usage(rb)}
	}
	if len(inputs) == 0 {
		return nil, nil
	}
	return inputs, nil
}

// filled returns a copy of params with placeholders replaced.
func filled(params, inputs blastdoor.Params) (blastdoor.Params, error) {
	if params == nil {
		return nil, nil
	}
	out := make(blastdoor.Params, len(params))
	for _, name := range slices.Sorted(maps.Keys(params)) {
		value := params[name]
		if s, ok := value.(string); ok {
			var err error
			if value, err = fill(s, inputs); err != nil {
				return nil, fmt.Errorf("parameter %s: %w", name, err)
			}
		}
		out[name] = value
	}
	return out, nil
}
