package engine

import (
	"bytes"
	"encoding/json"

	"blastdoor"
)

// document stores a policy by its digest, so that a run can pin it.
func document(policy blastdoor.Policy) (blastdoor.Document, error) {
	body, err := blastdoor.CanonicalJSON(policy)
	if err != nil {
		return blastdoor.Document{}, err
	}
	return blastdoor.Document{Digest: blastdoor.DigestBytes(body), Body: body}, nil
}

// ParsePolicy reads a stored policy back. A field that is not known is an error:
// half a policy is not a policy.
func ParsePolicy(body []byte) (blastdoor.Policy, error) {
	var policy blastdoor.Policy
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&policy); err != nil {
		return blastdoor.Policy{}, blastdoor.Errorf(blastdoor.ErrIntegrity, "the pinned policy does not parse: %v", err)
	}
	return policy, nil
}

// PolicyDigests names the stored policies that an event refers to.
func PolicyDigests(body blastdoor.Body) []string {
	switch body := body.(type) {
	case *blastdoor.RunRequested:
		return []string{body.PolicyDigest}
	case *blastdoor.VerdictGiven:
		return []string{body.PolicyDigest}
	case *blastdoor.ReverifyDenied:
		return []string{body.PolicyDigest}
	case *blastdoor.ApplyIntended:
		return []string{body.PolicyDigest}
	default:
		return nil
	}
}
