package slacksim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"blastdoor/chat/blockkit"
)

// A response_url works this many times, this long. Source: https://docs.slack.dev/interactivity/handling-user-interaction
const (
	hookUses = 5
	hookLife = 30 * time.Minute
)

// hook is what stands behind a response_url.
type hook struct {
	channel   string
	user      string
	message   string // the message clicked, for replace and delete
	ephemeral bool   // that message is ephemeral
	uses      int
	expires   time.Time
}

// newHook makes a response_url. The caller holds mu.
func (ws *Workspace) newHook(kind string, h *hook) string {
	secret := fmt.Sprintf("%016x", ws.rng.Uint64())
	h.expires = ws.opts.Now().Add(hookLife)
	ws.hooks[secret] = h
	return ws.base + "/" + kind + "/" + secret
}

// serveResponseURL shows, replaces or deletes a message on behalf of the app. No token, no membership: the URL is the
// right to do it.
func (ws *Workspace) serveResponseURL(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "invalid_payload", http.StatusBadRequest)
		return
	}
	f := ws.takeFault("response_url", nil)
	if f != nil && ws.faultBefore(w, &call{method: "response_url"}, f) {
		return
	}
	ws.mu.Lock()
	code := ws.respond(r.PathValue("secret"), raw)
	e := Entry{Kind: KindResponse, Name: "response_url", Payload: string(raw), Outcome: "ok"}
	if code != "" {
		e.Outcome = code
	}
	ws.record(e)
	ws.bump()
	ws.mu.Unlock()
	switch {
	case f != nil && ws.faultAfter(w, f):
	case code == "used_url" || code == "expired_url":
		http.Error(w, code, http.StatusNotFound)
	case code != "":
		http.Error(w, code, http.StatusBadRequest)
	default:
		_, _ = io.WriteString(w, "ok") // the peer may be gone
	}
}

// respond uses a response_url once; it returns an error code or nothing. The caller holds mu.
func (ws *Workspace) respond(secret string, raw []byte) string {
	h := ws.hooks[secret]
	switch {
	case h == nil || !ws.opts.Now().Before(h.expires):
		return "expired_url"
	case h.uses >= hookUses:
		return "used_url"
	}
	var body struct {
		Text            string          `json:"text"`
		Blocks          json.RawMessage `json:"blocks"`
		ResponseType    string          `json:"response_type"`
		ThreadTS        string          `json:"thread_ts"`
		ReplaceOriginal bool            `json:"replace_original"`
		DeleteOriginal  bool            `json:"delete_original"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return "invalid_payload"
	}
	h.uses++
	original := ws.original(h)
	if body.DeleteOriginal && original != nil {
		ws.removeAny(original)
		return ""
	}
	blocks, err := ws.readBlocks(string(body.Blocks))
	if err != nil {
		return err.Error()
	}
	c := content{text: blockkit.AsStored(body.Text, true), blocks: blocks}
	switch {
	case c.empty():
		return "no_text"
	case body.ReplaceOriginal && original != nil:
		original.Text, original.Blocks = c.text, c.blocks
		original.Edited = &Edit{User: ws.app.BotUserID, TS: ws.nextTS()}
		ws.touch(original)
		return ""
	}
	m := ws.botMessage(h.channel, c)
	m.ThreadTS = body.ThreadTS
	if body.ResponseType != "in_channel" {
		m.EphemeralTo = h.user
	}
	ws.add(m)
	return ""
}

// original finds the message that was clicked.
func (ws *Workspace) original(h *hook) *Message {
	if !h.ephemeral {
		return ws.find(h.channel, h.message)
	}
	for _, m := range ws.ephemerals {
		if m.Channel == h.channel && m.TS == h.message {
			return m
		}
	}
	return nil
}

func (ws *Workspace) removeAny(m *Message) {
	if m.EphemeralTo == "" {
		ws.remove(m)
		return
	}
	kept := ws.ephemerals[:0:0]
	for _, other := range ws.ephemerals {
		if other != m {
			kept = append(kept, other)
		}
	}
	ws.ephemerals = kept
}
