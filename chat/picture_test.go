package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPicture draws the card that waits for a second person, for the README, from
// the very JSON that is sent: the picture cannot show what the bot does not say.
func TestPicture(t *testing.T) {
	run := sampleRun()
	m, err := dryRunCard(&run, "drain", 1)
	require.NoError(t, err)
	same(t, filepath.Join("..", "docs", "images", "card.svg"), draw(t, m))
}

// canvas is a card being drawn: one line of text after another.
type canvas struct {
	body bytes.Buffer
	y    int
}

const (
	pictureWidth = 760
	textLeft     = 76
	lineHeight   = 22
)

// style is how a piece of text looks.
type style struct {
	size   int
	weight string
	family string
	fill   string
}

var (
	plainStyle = style{15, "400", "sans-serif", "#1d1c1d"}
	boldStyle  = style{15, "700", "sans-serif", "#1d1c1d"}
	codeStyle  = style{13, "400", "monospace", "#c0265a"}
	smallStyle = style{12, "400", "sans-serif", "#616061"}
)

func (c *canvas) line(s style, text string) {
	c.y += lineHeight
	c.body.WriteString(fmt.Sprintf(`<text x="%d" y="%d" font-family="%s" font-size="%d" font-weight="%s" fill="%s" xml:space="preserve">`,
		textLeft, c.y, s.family, s.size, s.weight, s.fill))
	c.body.WriteString(text + "</text>\n")
}

var (
	dates    = regexp.MustCompile(`<!date\^\d+\^[^|>]*\|[^>]*(\d\d:\d\d) UTC>`)
	mentions = regexp.MustCompile(`<[@!](?:subteam\^)?[A-Z0-9]+>`)
	pieces   = regexp.MustCompile("\\*[^*\n]+\\*|`[^`\n]+`")
)

// marked turns one line of mrkdwn into spans.
func marked(line string) string {
	line = dates.ReplaceAllString(line, "today at $1")
	line = mentions.ReplaceAllStringFunc(line, func(m string) string { return map[string]string{"<!subteam^S0SRE>": "@sre"}[m] })
	var b strings.Builder
	last := 0
	for _, at := range pieces.FindAllStringIndex(line, -1) {
		b.WriteString(html.EscapeString(line[last:at[0]]))
		s := boldStyle
		if line[at[0]] == '`' {
			s = codeStyle
		}
		fmt.Fprintf(&b, `<tspan font-family="%s" font-size="%d" font-weight="%s" fill="%s">%s</tspan>`, s.family, s.size, s.weight, s.fill,
			html.EscapeString(line[at[0]+1:at[1]-1]))
		last = at[1]
	}
	return b.String() + html.EscapeString(line[last:])
}

// drawnBlock is the part of Block Kit that the card uses.
type drawnBlock struct {
	Type string `json:"type"`
	Text struct {
		Text string `json:"text"`
	} `json:"text"`
	Elements []struct {
		Type     string          `json:"type"`
		Text     json.RawMessage `json:"text"`
		Style    string          `json:"style"`
		Elements []struct {
			Text string `json:"text"`
		} `json:"elements"`
	} `json:"elements"`
}

func draw(t *testing.T, m Message) []byte {
	t.Helper()
	var blocks []drawnBlock
	require.NoError(t, json.Unmarshal(m.Blocks, &blocks))
	c := &canvas{y: 26}
	c.line(boldStyle, `runbook <tspan font-size="10" fill="#616061">APP</tspan> <tspan font-size="12" font-weight="400" fill="#616061">14:01</tspan>`)
	for _, b := range blocks {
		c.block(t, b)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="A dry-run card in Slack">
<rect x="0.5" y="0.5" width="%d" height="%d" rx="10" fill="#ffffff" stroke="#dddddd"/>
<rect x="22" y="30" width="38" height="38" rx="8" fill="#1d3557"/>
<text x="41" y="55" font-family="sans-serif" font-size="17" font-weight="700" fill="#ffffff" text-anchor="middle">BD</text>
`, pictureWidth, c.y+28, pictureWidth, c.y+28, pictureWidth-1, c.y+27)
	out.Write(c.body.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes()
}

func (c *canvas) block(t *testing.T, b drawnBlock) {
	t.Helper()
	c.y += 8
	switch b.Type {
	case "header":
		c.line(style{18, "700", "sans-serif", "#1d1c1d"}, html.EscapeString(b.Text.Text))
	case "section":
		for line := range strings.SplitSeq(b.Text.Text, "\n") {
			c.line(plainStyle, marked(line))
		}
	case "rich_text":
		c.preformatted(b.Elements[0].Elements[0].Text)
	case "context":
		for _, e := range b.Elements {
			var text string
			require.NoError(t, json.Unmarshal(e.Text, &text))
			c.y -= 3
			c.line(smallStyle, html.EscapeString(strings.ReplaceAll(text, "`", "")))
		}
	case "actions":
		c.buttons(t, b)
	default:
		t.Fatalf("the picture does not know block %q", b.Type)
	}
}

func (c *canvas) preformatted(text string) {
	lines := strings.Split(text, "\n")
	fmt.Fprintf(&c.body, `<rect x="%d" y="%d" width="%d" height="%d" rx="4" fill="#f8f8f8" stroke="#dddddd"/>`+"\n",
		textLeft, c.y+4, pictureWidth-textLeft-24, len(lines)*lineHeight+8)
	for _, line := range lines {
		c.line(style{13, "400", "monospace", "#1d1c1d"}, "  "+html.EscapeString(line))
	}
	c.y += 10
}

func (c *canvas) buttons(t *testing.T, b drawnBlock) {
	t.Helper()
	x := textLeft
	for _, e := range b.Elements {
		var label struct{ Text string }
		require.NoError(t, json.Unmarshal(e.Text, &label))
		fill := map[string]string{"primary": "#007a5a", "danger": "#e01e5a"}[e.Style]
		fmt.Fprintf(&c.body, `<rect x="%d" y="%d" width="92" height="32" rx="6" fill="%s"/><text x="%d" y="%d" font-family="sans-serif" font-size="14" font-weight="700" fill="#ffffff" text-anchor="middle">%s</text>`+"\n",
			x, c.y+8, fill, x+46, c.y+29, html.EscapeString(label.Text))
		x += 104
	}
	c.y += 40
}
