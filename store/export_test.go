package store

// IndexedQueries are the questions asked again and again, and the index that must
// answer each.
func IndexedQueries() map[string]string {
	return map[string]string{
		selectPending:    "deliveries_pending",
		selectNext:       "deliveries_pending",
		selectInbox:      "inbox_unsettled",
		selectUnfinished: "runs_unfinished",
		selectRuns + ` WHERE 1 AND channel = ? ORDER BY n DESC LIMIT ?`: "runs_channel",
	}
}
