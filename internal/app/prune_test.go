package app_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"blastdoor"
	"blastdoor/store"
)

// TestOldEnvelopesAreForgotten: what people typed is kept for a day after it was
// answered, and no longer; what is not answered is never forgotten.
func TestOldEnvelopesAreForgotten(t *testing.T) {
	h := newHouse(t, setup{})
	h.stop()
	accept := func(age time.Duration, id string, settle bool) (isNew bool) {
		then := func() time.Time { return h.now().Add(-age) }
		s, err := store.Open(t.Context(), h.conf.Files.Store(), store.Options{Now: then})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		isNew, err = s.Accept(t.Context(), blastdoor.InboxItem{ID: id, Kind: "slash_commands", Payload: []byte(`{}`), ReceivedAt: then()})
		require.NoError(t, err)
		if settle {
			require.NoError(t, s.Settle(t.Context(), id, nil))
		}
		return isNew
	}
	require.True(t, accept(25*time.Hour, "old", true))
	require.True(t, accept(23*time.Hour, "recent", true))
	h.start()
	h.stop()
	require.True(t, accept(0, "old", false), "forgotten, and so new again")
	require.False(t, accept(0, "recent", false), "known still")
}
