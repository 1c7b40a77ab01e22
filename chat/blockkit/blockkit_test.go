package blockkit

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func x(n int) string { return strings.Repeat("x", n) }

func repeat(n int, f func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = f(i)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func button(fields string) string {
	return `{"type":"actions","elements":[{"type":"button","text":{"type":"plain_text","text":"ok"}` + fields + `}]}`
}

func section(text string) string {
	return fmt.Sprintf(`{"type":"section","text":{"type":"mrkdwn","text":%q}}`, text)
}

func option(i, value int) string {
	return fmt.Sprintf(`{"text":{"type":"plain_text","text":"%d"},"value":%q}`, i, x(value))
}

func confirm(title, text, yes, no int) string {
	return button(fmt.Sprintf(`,"confirm":{"title":{"type":"plain_text","text":%q},"text":{"type":"mrkdwn","text":%q},
		"confirm":{"type":"plain_text","text":%q},"deny":{"type":"plain_text","text":%q}}`, x(title), x(text), x(yes), x(no)))
}

func rich(parts string) string { return `{"type":"rich_text","elements":[` + parts + `]}` }

func selectMenu(fields string) string {
	return `{"type":"section","text":{"type":"mrkdwn","text":"t"},"accessory":{"type":"static_select","action_id":"a"` + fields + `}}`
}

// Every limit, just kept and just passed: build(limit) must be clean and build(limit+1) must report exactly one problem,
// at that path, with that code. Each row is thus the negative control of its own rule.
func TestCheckLimits(t *testing.T) {
	rows := []struct {
		name  string
		limit int
		path  string
		code  Code
		build func(n int) string // one block
	}{
		{"section text", 3000, "/blocks/0/text/text", CodeTooLong, func(n int) string { return section(x(n)) }},
		{"header text", 150, "/blocks/0/text/text", CodeTooLong, func(n int) string { return `{"type":"header","text":{"type":"plain_text","text":"` + x(n) + `"}}` }},
		{"block_id", 255, "/blocks/0/block_id", CodeTooLong, func(n int) string { return `{"type":"divider","block_id":"` + x(n) + `"}` }},
		{"fields", 10, "/blocks/0/fields", CodeTooMany, func(n int) string {
			return `{"type":"section","fields":` + repeat(n, func(int) string { return `{"type":"mrkdwn","text":"f"}` }) + `}`
		}},
		{"field text", 2000, "/blocks/0/fields/0/text", CodeTooLong, func(n int) string {
			return `{"type":"section","fields":[{"type":"mrkdwn","text":"` + x(n) + `"}]}`
		}},
		{"context elements", 10, "/blocks/0/elements", CodeTooMany, func(n int) string {
			return `{"type":"context","elements":` + repeat(n, func(int) string { return `{"type":"mrkdwn","text":"f"}` }) + `}`
		}},
		{"context text", 3000, "/blocks/0/elements/0/text", CodeTooLong, func(n int) string {
			return `{"type":"context","elements":[{"type":"plain_text","text":"` + x(n) + `"}]}`
		}},
		{"actions elements", 25, "/blocks/0/elements", CodeTooMany, func(n int) string {
			return `{"type":"actions","elements":` + repeat(n, func(i int) string {
				return fmt.Sprintf(`{"type":"button","action_id":"a%d","text":{"type":"plain_text","text":"b"}}`, i)
			}) + `}`
		}},
		{"button text", 75, "/blocks/0/elements/0/text/text", CodeTooLong, func(n int) string {
			return `{"type":"actions","elements":[{"type":"button","text":{"type":"plain_text","text":"` + x(n) + `"}}]}`
		}},
		{"button value", 2000, "/blocks/0/elements/0/value", CodeTooLong, func(n int) string { return button(`,"value":"` + x(n) + `"`) }},
		{"button url", 3000, "/blocks/0/elements/0/url", CodeTooLong, func(n int) string { return button(`,"url":"` + x(n) + `"`) }},
		{"button label", 75, "/blocks/0/elements/0/accessibility_label", CodeTooLong, func(n int) string { return button(`,"accessibility_label":"` + x(n) + `"`) }},
		{"action_id", 255, "/blocks/0/elements/0/action_id", CodeTooLong, func(n int) string { return button(`,"action_id":"` + x(n) + `"`) }},
		{"confirm title", 100, "/blocks/0/elements/0/confirm/title/text", CodeTooLong, func(n int) string { return confirm(n, 1, 1, 1) }},
		{"confirm text", 300, "/blocks/0/elements/0/confirm/text/text", CodeTooLong, func(n int) string { return confirm(1, n, 1, 1) }},
		{"confirm yes", 30, "/blocks/0/elements/0/confirm/confirm/text", CodeTooLong, func(n int) string { return confirm(1, 1, n, 1) }},
		{"confirm no", 30, "/blocks/0/elements/0/confirm/deny/text", CodeTooLong, func(n int) string { return confirm(1, 1, 1, n) }},
		{"select options", 100, "/blocks/0/accessory/options", CodeTooMany, func(n int) string {
			return selectMenu(`,"options":` + repeat(n, func(i int) string { return option(i, 1) }))
		}},
		{"option value", 150, "/blocks/0/accessory/options/0/value", CodeTooLong, func(n int) string { return selectMenu(`,"options":[` + option(0, n) + `]`) }},
		{"placeholder", 150, "/blocks/0/accessory/placeholder/text", CodeTooLong, func(n int) string {
			return selectMenu(`,"options":[` + option(0, 1) + `],"placeholder":{"type":"plain_text","text":"` + x(n) + `"}`)
		}},
		{"overflow options", 5, "/blocks/0/elements/0/options", CodeTooMany, func(n int) string {
			return `{"type":"actions","elements":[{"type":"overflow","options":` + repeat(n, func(i int) string { return option(i, 1) }) + `}]}`
		}},
		{"radio options", 10, "/blocks/0/elements/0/options", CodeTooMany, func(n int) string {
			return `{"type":"actions","elements":[{"type":"radio_buttons","options":` + repeat(n, func(i int) string { return option(i, 1) }) + `}]}`
		}},
		{"image alt_text", 2000, "/blocks/0/alt_text", CodeTooLong, func(n int) string {
			return `{"type":"image","image_url":"https://x","alt_text":"` + x(n) + `"}`
		}},
		{"input label", 2000, "/blocks/0/label/text", CodeTooLong, func(n int) string {
			return `{"type":"input","label":{"type":"plain_text","text":"` + x(n) + `"},"element":{"type":"plain_text_input"}}`
		}},
		{"markdown", MaxMarkdown, "/blocks/0/text", CodeTooLong, func(n int) string { return `{"type":"markdown","text":"` + x(n) + `"}` }},
		{"table rows", 100, "/blocks/0/rows", CodeTooMany, func(n int) string {
			return `{"type":"table","rows":` + repeat(n, func(int) string { return `[{"type":"raw_text","text":"c"}]` }) + `}`
		}},
		{"table columns", 20, "/blocks/0/rows/0", CodeTooMany, func(n int) string {
			return `{"type":"table","rows":[` + repeat(n, func(int) string { return `{"type":"raw_text","text":"c"}` }) + `]}`
		}},
		{"rich text indent", 8, "/blocks/0/elements/0/indent", CodeInvalidValue, func(n int) string {
			return rich(fmt.Sprintf(`{"type":"rich_text_list","style":"bullet","indent":%d,"elements":[]}`, n))
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			assert.Empty(t, Check(json.RawMessage("["+row.build(row.limit)+"]"), Message), "at the limit")
			over := Check(json.RawMessage("["+row.build(row.limit+1)+"]"), Message)
			require.Len(t, over, 1, "over the limit")
			assert.Equal(t, row.path, over[0].Path)
			assert.Equal(t, row.code, over[0].Code)
			assert.Equal(t, row.limit, over[0].Limit)
			assert.True(t, strings.HasSuffix(over[0].Message, "[json-pointer:"+row.path+"]"), over[0].Message)
		})
	}
}

func TestCheckNumberOfBlocks(t *testing.T) {
	dividers := func(n int) json.RawMessage {
		return json.RawMessage(repeat(n, func(int) string { return `{"type":"divider"}` }))
	}
	for surface, limit := range map[Surface]int{Message: 50, Modal: 100, Home: 100} {
		assert.Empty(t, Check(dividers(limit), surface))
		over := Check(dividers(limit+1), surface)
		require.Len(t, over, 1)
		assert.Equal(t, CodeTooMany, over[0].Code)
		assert.Equal(t, limit, over[0].Limit)
	}
}

func TestCheckProblems(t *testing.T) {
	rows := []struct {
		name, blocks string
		surface      Surface
		want         []string
	}{
		{"not JSON", `[`, Message, []string{"must be valid JSON [json-pointer:/blocks]"}},
		{"two values", `[] []`, Message, []string{"must be valid JSON [json-pointer:/blocks]"}},
		{"not an array", `{}`, Message, []string{"must provide an array [json-pointer:/blocks]"}},
		{"not an object", `[1]`, Message, []string{"must provide an object [json-pointer:/blocks/0]"}},
		{"no type", `[{}]`, Message, []string{"missing required field: type [json-pointer:/blocks/0]"}},
		{"unknown type", `[{"type":"nonsense"}]`, Message, []string{"unsupported type: nonsense [json-pointer:/blocks/0/type]"}},
		{"unsettled type", `[{"type":"carousel"}]`, Message, []string{"unsupported type: carousel [json-pointer:/blocks/0/type]"}},
		{"wrong surface", `[{"type":"markdown","text":"x"}]`, Modal, []string{"unsupported type: markdown [json-pointer:/view/blocks/0/type]"}},
		{"empty text", `[{"type":"section","text":{"type":"mrkdwn","text":""}}]`, Message, []string{"must be more than 0 characters [json-pointer:/blocks/0/text/text]"}},
		{"no text", `[{"type":"section"}]`, Message, []string{"missing required field: text [json-pointer:/blocks/0]"}},
		{"text is a string", `[{"type":"section","text":"x"}]`, Message, []string{"must provide an object [json-pointer:/blocks/0/text]"}},
		{"text without text", `[{"type":"section","text":{"type":"mrkdwn"}}]`, Message, []string{"missing required field: text [json-pointer:/blocks/0/text]"}},
		{"mrkdwn in a header", `[{"type":"header","text":{"type":"mrkdwn","text":"x"}}]`, Message, []string{"unsupported type: mrkdwn [json-pointer:/blocks/0/text/type]"}},
		{"emoji in mrkdwn", `[{"type":"section","text":{"type":"mrkdwn","text":"x","emoji":true}}]`, Message, []string{"invalid additional property: emoji [json-pointer:/blocks/0/text]"}},
		{"unknown field", `[{"type":"divider","zebra":1,"ant":2}]`, Message, []string{
			"invalid additional property: ant [json-pointer:/blocks/0]", "invalid additional property: zebra [json-pointer:/blocks/0]"}},
		{"same block_id", `[{"type":"divider","block_id":"b"},{"type":"divider","block_id":"b"}]`, Message, []string{"`block_id` \"b\" already exists [json-pointer:/blocks/1/block_id]"}},
		{"same action_id", `[{"type":"actions","elements":[{"type":"button","action_id":"a","text":{"type":"plain_text","text":"x"}},{"type":"button","action_id":"a","text":{"type":"plain_text","text":"y"}}]}]`,
			Message, []string{"`action_id` \"a\" already exists [json-pointer:/blocks/0/elements/1/action_id]"}},
		{"no elements", `[{"type":"actions","elements":[]}]`, Message, []string{"no less than 1 items allowed [json-pointer:/blocks/0/elements]"}},
		{"one overflow option", `[{"type":"actions","elements":[{"type":"overflow","options":[{"text":{"type":"plain_text","text":"x"},"value":"v"}]}]}]`,
			Message, []string{"no less than 2 items allowed [json-pointer:/blocks/0/elements/0/options]"}},
		{"odd style", "[" + button(`,"style":"blue"`) + "]", Message, []string{"must be a valid enum value [json-pointer:/blocks/0/elements/0/style]"}},
		{"value is a number", "[" + button(`,"value":1`) + "]", Message, []string{"must provide a string [json-pointer:/blocks/0/elements/0/value]"}},
		{"input element in actions", `[{"type":"actions","elements":[{"type":"plain_text_input"}]}]`, Message, []string{"unsupported type: plain_text_input [json-pointer:/blocks/0/elements/0/type]"}},
		{"image in fields", `[{"type":"section","fields":[{"type":"image","image_url":"https://x","alt_text":"x"}]}]`, Message, []string{"unsupported type: image [json-pointer:/blocks/0/fields/0/type]"}},
		{"two tables", `[{"type":"table","rows":[[{"type":"raw_text","text":"c"}]]},{"type":"table","rows":[[{"type":"raw_text","text":"c"}]]}]`,
			Message, []string{"only one table allowed [json-pointer:/blocks/1]"}},
		{"markdown together", `[{"type":"markdown","text":"` + x(7000) + `"},{"type":"markdown","text":"` + x(7000) + `"}]`, Message,
			[]string{"must be less than 12001 characters in all markdown blocks together [json-pointer:/blocks/1/text]"}},
		{"rich text without elements", "[" + rich(``) + "]", Message, []string{"no less than 1 items allowed [json-pointer:/blocks/0/elements]"}},
		{"empty rich text", "[" + rich(`{"type":"rich_text_section","elements":[{"type":"text","text":""}]}`) + "]", Message, []string{"must be more than 0 characters [json-pointer:/blocks/0/elements/0/elements/0/text]"}},
		{"text straight in rich text", "[" + rich(`{"type":"text","text":"x"}`) + "]", Message, []string{"unsupported type: text [json-pointer:/blocks/0/elements/0/type]"}},
		{"list item that is no section", "[" + rich(`{"type":"rich_text_list","style":"bullet","elements":[{"type":"rich_text_quote","elements":[]}]}`) + "]", Message,
			[]string{"unsupported type: rich_text_quote [json-pointer:/blocks/0/elements/0/elements/0/type]"}},
		{"date without timestamp", "[" + rich(`{"type":"rich_text_section","elements":[{"type":"date","format":"{date}"}]}`) + "]", Message,
			[]string{"missing required field: timestamp [json-pointer:/blocks/0/elements/0/elements/0]"}},
		{"null text", `[{"type":"section","text":null}]`, Message, []string{"must provide an object [json-pointer:/blocks/0/text]", "missing required field: text [json-pointer:/blocks/0]"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			for _, p := range Check(json.RawMessage(row.blocks), row.surface) {
				got = append(got, p.String())
			}
			assert.Equal(t, row.want, got)
		})
	}
}

func TestCheckAcceptsEveryKindOfBlock(t *testing.T) {
	raw, err := os.ReadFile("testdata/every_block.json")
	require.NoError(t, err)
	assert.Empty(t, Check(raw, Message))
}

// Slack keeps text escaped, so 1000 raw ampersands take 5000 characters; what is escaped already is not escaped again.
func TestLengthIsCountedAsStored(t *testing.T) {
	check := func(text string) []Problem { return Check(json.RawMessage("["+section(text)+"]"), Message) }
	assert.Empty(t, check(strings.Repeat("&", 600)))
	assert.Len(t, check(strings.Repeat("&", 601)), 1)
	assert.Empty(t, check(strings.Repeat("&amp;", 600)))
	assert.Empty(t, check(strings.Repeat("<@U1>", 600)))
	assert.Len(t, check(strings.Repeat("<", 751)), 1)
	assert.Empty(t, check(strings.Repeat("🚪", 1500)), "two UTF-16 units each")
	assert.Len(t, check(strings.Repeat("🚪", 1501)), 1)
}

func TestCheckView(t *testing.T) {
	modal := func(title int, more string) json.RawMessage {
		return json.RawMessage(`{"type":"modal","title":{"type":"plain_text","text":"` + x(title) + `"},"blocks":[{"type":"divider"}]` + more + `}`)
	}
	assert.Empty(t, CheckView(modal(24, "")))
	assert.Len(t, CheckView(modal(25, "")), 1)
	assert.Empty(t, CheckView(modal(1, `,"private_metadata":"`+x(3000)+`"`)))
	assert.Len(t, CheckView(modal(1, `,"private_metadata":"`+x(3001)+`"`)), 1)
	assert.Empty(t, CheckView(json.RawMessage(`{"type":"home","blocks":[{"type":"divider"}]}`)))
	input := `{"type":"input","label":{"type":"plain_text","text":"l"},"element":{"type":"plain_text_input"}}`
	noSubmit := CheckView(json.RawMessage(`{"type":"modal","title":{"type":"plain_text","text":"t"},"blocks":[` + input + `]}`))
	require.Len(t, noSubmit, 1)
	assert.Equal(t, "missing required field: submit [json-pointer:/view]", noSubmit[0].Message)
	assert.Len(t, CheckView(json.RawMessage(`[]`)), 1)
	assert.Len(t, CheckView(json.RawMessage(`{"type":"poster","blocks":[]}`)), 1)
	bad := CheckView(json.RawMessage(`{"type":"home","blocks":[{"type":"nonsense"}]}`))
	require.Len(t, bad, 1)
	assert.Equal(t, "/view/blocks/0/type", bad[0].Path)
}

func TestEscape(t *testing.T) {
	assert.Equal(t, "a &amp;&amp; b &lt;!channel&gt;", Escape("a && b <!channel>"))
	assert.Equal(t, "&amp;lt;", Escape("&lt;"), "what was typed is shown as typed")
	assert.Equal(t, "a && b <!channel>", Unescape(Escape("a && b <!channel>")))
}

func TestAsStored(t *testing.T) {
	rows := []struct{ in, mrkdwn, plain string }{
		{"a & b", "a &amp; b", "a &amp; b"},
		{"a &amp; b &lt;", "a &amp; b &lt;", "a &amp; b &lt;"},
		{"hi <@U1|bob>", "hi <@U1|bob>", "hi &lt;@U1|bob&gt;"},
		{"<https://x|y> <!here>", "<https://x|y> <!here>", "&lt;https://x|y&gt; &lt;!here&gt;"},
		{"1 < 2 > 0", "1 &lt; 2 &gt; 0", "1 &lt; 2 &gt; 0"},
		{"<b>", "&lt;b&gt;", "&lt;b&gt;"},
		{"<@U1", "&lt;@U1", "&lt;@U1"},
		{"<@U1\n>", "&lt;@U1\n&gt;", "&lt;@U1\n&gt;"},
		{"<>", "&lt;&gt;", "&lt;&gt;"},
	}
	for _, row := range rows {
		assert.Equal(t, row.mrkdwn, AsStored(row.in, true), row.in)
		assert.Equal(t, row.plain, AsStored(row.in, false), row.in)
		assert.Equal(t, row.mrkdwn, AsStored(row.mrkdwn, true), "twice: %s", row.in)
	}
}

func TestStoredBlocksEscapesTextButNotValues(t *testing.T) {
	got, err := StoredBlocks(json.RawMessage(`[{"type":"actions","elements":[{"type":"button","value":"a&b","text":{"type":"plain_text","text":"<@U1>"}}]},
		{"type":"section","text":{"type":"mrkdwn","text":"<@U1> & <b>"}}]`))
	require.NoError(t, err)
	assert.Equal(t, `[{"elements":[{"text":{"text":"&lt;@U1&gt;","type":"plain_text"},"type":"button","value":"a&b"}],"type":"actions"},`+
		`{"text":{"text":"<@U1> &amp; &lt;b&gt;","type":"mrkdwn"},"type":"section"}]`, string(got))
	_, err = StoredBlocks(json.RawMessage(`[`))
	assert.Error(t, err)
}

// Whatever comes in, Check must not panic, and what it lets pass must keep its length in stored form.
func FuzzCheck(f *testing.F) {
	every, err := os.ReadFile("testdata/every_block.json")
	require.NoError(f, err)
	f.Add(string(every))
	for _, seed := range []string{`[]`, `[{}]`, `{"type":"modal"}`, `[{"type":"rich_text","elements":[{"type":"rich_text_list"}]}]`, `[[[`, `[{"type":"table","rows":[[1]]}]`, "[" + section("&<>") + "]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		CheckView(json.RawMessage(raw))
		for _, s := range []Surface{Message, Modal, Home} {
			if Check(json.RawMessage(raw), s) != nil {
				continue
			}
			stored, err := StoredBlocks(json.RawMessage(raw))
			require.NoError(t, err)
			require.Empty(t, Check(stored, s), "what was accepted is accepted again as stored")
		}
	})
}

func FuzzAsStored(f *testing.F) {
	f.Add("a & <b> <@U1|x> &lt;")
	f.Fuzz(func(t *testing.T, s string) {
		for _, mrkdwn := range []bool{true, false} {
			once := AsStored(s, mrkdwn)
			require.Equal(t, once, AsStored(once, mrkdwn))
		}
		require.NotContains(t, AsStored(s, false), "<")
		require.NotContains(t, Escape(s), "<")
		require.Equal(t, Escape(s), AsStored(Escape(s), true), "escaped text cannot mention anyone")
		require.Equal(t, s, Unescape(Escape(s)))
	})
}
