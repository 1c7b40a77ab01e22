package slacksim

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"blastdoor/chat/blockkit"
)

// File is an uploaded file.
type File struct {
	ID, Name, Title string
	Content         []byte
	size            int
	done            bool
}

func (f File) wire() map[string]any {
	return map[string]any{"id": f.ID, "name": f.Name, "title": f.Title, "size": len(f.Content), "mode": "hosted"}
}

// uploadURL is the first step: a place to send the bytes to, on this same host, because the client sends its token along.
func (ws *Workspace) uploadURL(c *call) (map[string]any, error) {
	name := c.args["filename"]
	size, err := c.args.number("length", 0, 1, 1<<30)
	switch {
	case name == "":
		return nil, refuse("missing_filename")
	case err != nil || size == 0:
		return nil, refuse("invalid_length")
	}
	f := &File{ID: ws.nextID("F"), Name: name, Title: name, size: size}
	ws.files[f.ID] = f
	return map[string]any{"file_id": f.ID, "upload_url": ws.base + "/upload/v1/" + f.ID}, nil
}

// serveUpload is the second step: the bytes, as multipart or as they are.
func (ws *Workspace) serveUpload(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = http.MaxBytesReader(w, r.Body, 64<<20)
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		part, _, err := r.FormFile("file")
		if err != nil {
			http.Error(w, "no file", http.StatusBadRequest)
			return
		}
		defer func() { _ = part.Close() }()
		body = part
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		http.Error(w, "reading the file", http.StatusBadRequest)
		return
	}
	ws.mu.Lock()
	f := ws.files[r.PathValue("file")]
	ok := f != nil && !f.done && len(raw) == f.size
	if ok {
		f.Content = raw
	}
	ws.record(Entry{Kind: KindUpload, Name: r.PathValue("file"), Outcome: map[bool]string{true: "ok", false: "refused"}[ok]})
	ws.bump()
	ws.mu.Unlock()
	if !ok {
		http.Error(w, "unknown file or wrong length", http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, "OK") // the peer may be gone
}

// completeUpload is the third step: the files become visible, in a message when a channel is named. The message's ts is
// not in the answer, as with Slack, where sharing happens later.
func (ws *Workspace) completeUpload(c *call) (map[string]any, error) {
	var list []struct {
		ID    string `json:"id"`
		Title string `json:"title"`
	}
	if err := json.Unmarshal([]byte(c.args["files"]), &list); err != nil || len(list) == 0 {
		return nil, refuse("invalid_arguments")
	}
	var files []File
	var out []map[string]any
	for _, item := range list {
		f := ws.files[item.ID]
		if f == nil || f.done || f.Content == nil {
			return nil, refuse("file_not_found")
		}
		if item.Title != "" {
			f.Title = item.Title
		}
		files = append(files, *f)
		out = append(out, map[string]any{"id": f.ID, "title": f.Title})
	}
	if c.args["channel_id"] != "" {
		if err := ws.shareFiles(c.args, files); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		ws.files[f.ID].done = true
	}
	return map[string]any{"files": out}, nil
}

func (ws *Workspace) shareFiles(a args, files []File) error {
	ch, err := ws.writable(a["channel_id"])
	if err != nil {
		return err
	}
	parent, err := ws.threadParent(ch, a["thread_ts"])
	if err != nil {
		return err
	}
	m := ws.botMessage(ch.ID, content{text: blockkit.AsStored(a["initial_comment"], true)})
	m.Files = files
	ws.attach(m, parent)
	ws.add(m)
	return nil
}
