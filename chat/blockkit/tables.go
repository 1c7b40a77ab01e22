package blockkit

// kind says how the value of a field is checked.
type kind int

const (
	kindAny    kind = iota // not looked into
	kindText               // a text object; plain says that mrkdwn is not allowed
	kindProse              // a string people read as it is: counted as stored
	kindMrkdwn             // a string with mrkdwn: counted as stored, control sequences kept
	kindToken              // a string programs read: counted as it is
	kindEnum               // one of values
	kindBool
	kindInt     // from min to max
	kindObject  // one object of the family of
	kindList    // min to max objects of the family of
	kindStrings // any number of strings
	kindRows    // a table: min to max rows of 1 to maxColumns cells of the family of
	kindBlocks  // the blocks of a view
)

// field is one rule: what may stand under a name.
type field struct {
	name     string
	kind     kind
	required bool
	plain    bool
	min, max int // characters, items, or bounds of an integer; max 0 means no upper limit
	of       family
	values   []string
}

// shape is everything allowed in an object of one type.
type shape struct {
	fields   []field
	anyOf    []string  // at least one of these must be present
	surfaces []Surface // empty means all
}

// family names a set of shapes that may stand in the same place, told apart by their "type".
type family string

const (
	famBlock        family = "block"
	famView         family = "view"
	famAction       family = "action"    // elements of an actions block
	famAccessory    family = "accessory" // the element beside a section
	famInput        family = "input"     // the element of an input block
	famField        family = "field"     // text objects in a section's fields
	famContext      family = "context"
	famContextAct   family = "context action"
	famRichPart     family = "rich text part"
	famRichSection  family = "rich text section"
	famRichElement  family = "rich text element"
	famTableCell    family = "table cell"
	famConfirm      family = "confirm" // the families below have one shape and no "type"
	famOption       family = "option"
	famOptionGroup  family = "option group"
	famRichStyle    family = "rich text style"
	famColumn       family = "column"
	famFeedback     family = "feedback button"
	famSlackFile    family = "slack file"
	famDispatch     family = "dispatch action"
	famConversation family = "conversation filter"
)

// untyped is the key of the single shape in a family whose objects carry no "type".
const untyped = ""

const maxColumns = 20

func req(f field) field { f.required = true; return f }

func textField(name string, maxLen int) field {
	return field{name: name, kind: kindText, min: 1, max: maxLen}
}
func plainField(name string, maxLen int) field {
	return field{name: name, kind: kindText, plain: true, min: 1, max: maxLen}
}
func proseField(name string, maxLen int) field {
	return field{name: name, kind: kindProse, min: 1, max: maxLen}
}
func tokenField(name string, maxLen int) field {
	return field{name: name, kind: kindToken, max: maxLen}
}
func boolField(name string) field { return field{name: name, kind: kindBool} }
func intField(name string, lo, hi int) field {
	return field{name: name, kind: kindInt, min: lo, max: hi}
}
func anyField(name string) field            { return field{name: name} }
func objField(name string, of family) field { return field{name: name, kind: kindObject, of: of} }

func enumField(name string, values ...string) field {
	return field{name: name, kind: kindEnum, values: values}
}

func listField(name string, of family, lo, hi int) field {
	return field{name: name, kind: kindList, of: of, min: lo, max: hi}
}

func idsField(name string) field { return field{name: name, kind: kindStrings} }

// shapeOf finds the shape of a type within a family.
func shapeOf(fam family, typ string) (shape, bool) {
	var s shape
	var ok bool
	switch fam {
	case famBlock:
		s, ok = blockShape(typ)
	case famView:
		s, ok = viewShape(typ)
	case famAction:
		s, ok = elementShape(typ)
		ok = ok && typ != "image" && !inputOnly(typ)
	case famAccessory:
		s, ok = elementShape(typ)
		ok = ok && !inputOnly(typ)
	case famInput:
		s, ok = elementShape(typ)
		ok = ok && typ != "button" && typ != "image" && typ != "overflow"
	case famField:
		s, ok = textShape(typ, 2000)
	case famContext:
		s, ok = contextShape(typ)
	case famContextAct:
		s, ok = contextActionShape(typ)
	case famRichPart, famRichSection:
		s, ok = richPartShape(typ)
		ok = ok && (fam == famRichPart || typ == "rich_text_section")
	case famRichElement:
		s, ok = richElementShape(typ)
	case famTableCell:
		s, ok = cellShape(typ)
	default:
		s, ok = compositionShape(fam)
	}
	return s, ok
}

// blockShape lists the blocks that a message, modal or Home tab may hold. The newest blocks (card, carousel, alert,
// plan, task_card, container, layout, data_table, data_visualization) are refused on purpose: which surfaces take them
// still varies.
func blockShape(typ string) (shape, bool) {
	id := tokenField("block_id", 255)
	switch typ {
	case "section":
		return shape{anyOf: []string{"text", "fields"}, fields: []field{id, textField("text", 3000),
			listField("fields", famField, 1, 10), objField("accessory", famAccessory), boolField("expand")}}, true
	case "header":
		return shape{fields: []field{id, req(plainField("text", 150)), intField("level", 1, 4)}}, true
	case "divider":
		return shape{fields: []field{id}}, true
	case "image":
		return shape{anyOf: []string{"image_url", "slack_file"}, fields: []field{id, tokenField("image_url", 3000),
			objField("slack_file", famSlackFile), req(proseField("alt_text", 2000)), plainField("title", 2000)}}, true
	case "context":
		return shape{fields: []field{id, req(listField("elements", famContext, 1, 10))}}, true
	case "actions":
		return shape{fields: []field{id, req(listField("elements", famAction, 1, 25))}}, true
	case "context_actions":
		return shape{surfaces: []Surface{Message}, fields: []field{id, req(listField("elements", famContextAct, 1, 5))}}, true
	case "input":
		return shape{fields: []field{id, req(plainField("label", 2000)), req(objField("element", famInput)),
			plainField("hint", 2000), boolField("optional"), boolField("dispatch_action")}}, true
	case "markdown":
		return shape{surfaces: []Surface{Message}, fields: []field{id, req(proseField("text", MaxMarkdown))}}, true
	case "rich_text":
		return shape{fields: []field{id, req(listField("elements", famRichPart, 1, 0))}}, true
	case "table":
		return shape{surfaces: []Surface{Message}, fields: []field{id,
			req(field{name: "rows", kind: kindRows, of: famTableCell, min: 1, max: 100}), listField("column_settings", famColumn, 0, maxColumns)}}, true
	case "video":
		return shape{fields: []field{id, req(proseField("alt_text", 2000)), req(plainField("title", 200)), req(tokenField("thumbnail_url", 3000)),
			req(tokenField("video_url", 3000)), proseField("author_name", 50), plainField("description", 200), tokenField("provider_icon_url", 3000),
			proseField("provider_name", 0), tokenField("title_url", 3000)}}, true
	}
	return shape{}, false
}

func viewShape(typ string) (shape, bool) {
	common := []field{req(field{name: "blocks", kind: kindBlocks}), tokenField("private_metadata", 3000), tokenField("callback_id", 255), tokenField("external_id", 255)}
	switch typ {
	case "modal":
		return shape{fields: append(common, req(plainField("title", 24)), plainField("submit", 24), plainField("close", 24),
			boolField("clear_on_close"), boolField("notify_on_close"), boolField("submit_disabled"))}, true
	case "home":
		return shape{fields: common}, true
	}
	return shape{}, false
}

func compositionShape(fam family) (shape, bool) {
	switch fam {
	case famConfirm:
		return shape{fields: []field{req(plainField("title", 100)), req(textField("text", 300)), req(plainField("confirm", 30)),
			req(plainField("deny", 30)), enumField("style", "primary", "danger")}}, true
	case famOption:
		return shape{fields: []field{req(textField("text", 75)), req(field{name: "value", kind: kindToken, min: 1, max: 150}),
			textField("description", 75), tokenField("url", 3000)}}, true
	case famOptionGroup:
		return shape{fields: []field{req(plainField("label", 75)), req(listField("options", famOption, 1, 100))}}, true
	case famRichStyle:
		return shape{fields: []field{boolField("bold"), boolField("italic"), boolField("strike"), boolField("code"), boolField("underline"),
			boolField("highlight"), boolField("client_highlight"), boolField("unlink")}}, true
	case famColumn:
		return shape{fields: []field{enumField("align", "left", "center", "right", ""), boolField("is_wrapped")}}, true
	case famFeedback:
		return shape{fields: []field{req(plainField("text", 75)), req(tokenField("value", 2000)), tokenField("accessibility_label", 75)}}, true
	case famSlackFile:
		return shape{anyOf: []string{"id", "url"}, fields: []field{tokenField("id", 0), tokenField("url", 3000)}}, true
	case famDispatch:
		return shape{fields: []field{idsField("trigger_actions_on")}}, true
	case famConversation:
		return shape{fields: []field{idsField("include"), boolField("exclude_external_shared_channels"), boolField("exclude_bot_users")}}, true
	}
	return shape{}, false
}

func contextShape(typ string) (shape, bool) {
	if typ == "image" {
		return imageElement(), true
	}
	return textShape(typ, 3000)
}

// textShape is a text object with 1 to maxLen characters.
func textShape(typ string, maxLen int) (shape, bool) {
	switch typ {
	case "plain_text":
		return shape{fields: []field{req(proseField("text", maxLen)), boolField("emoji")}}, true
	case "mrkdwn":
		return shape{fields: []field{req(field{name: "text", kind: kindMrkdwn, min: 1, max: maxLen}), boolField("verbatim")}}, true
	}
	return shape{}, false
}
