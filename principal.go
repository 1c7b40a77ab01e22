package blastdoor

// Principal is a person (or a machine account) as Slack vouches for them, looked
// up fresh. The zero value is nobody: Verified is false, so it may do nothing.
type Principal struct {
	UserID string `json:"user_id"`
	TeamID string `json:"team_id"`
	// EnterpriseUserID is the same person's id across the workspaces of one
	// organisation; empty outside Enterprise Grid.
	EnterpriseUserID string `json:"enterprise_user_id,omitempty"`
	// Name is for display only. It is chosen by its owner and proves nothing.
	Name string `json:"name,omitempty"`

	Verified bool `json:"verified"`           // the look-up succeeded and answered for this very id
	Bot      bool `json:"bot,omitempty"`      // any kind of bot, Slackbot included
	Guest    bool `json:"guest,omitempty"`    // single- or multi-channel guest
	External bool `json:"external,omitempty"` // another workspace, or a Slack Connect stranger
	Inactive bool `json:"inactive,omitempty"` // deactivated, or invited and never joined
}

// Same reports whether p and q are the same human being: the same user id, or the
// same enterprise-wide id (a person has one user id per workspace of an organisation).
func (p Principal) Same(q Principal) bool {
	if p.UserID != "" && p.UserID == q.UserID {
		return true
	}
	return p.EnterpriseUserID != "" && p.EnterpriseUserID == q.EnterpriseUserID
}

// FullMember reports whether p is an active human member of the installed workspace.
func (p Principal) FullMember() bool {
	return p.Verified && p.UserID != "" && !p.Bot && !p.Guest && !p.External && !p.Inactive
}
