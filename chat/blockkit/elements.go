package blockkit

import "strings"

// inputOnly says whether an element may stand only in an input block.
func inputOnly(typ string) bool {
	switch typ {
	case "plain_text_input", "email_text_input", "url_text_input", "number_input", "file_input":
		return true
	}
	return false
}

// elementShape lists interactive elements; shapeOf decides where each may stand.
func elementShape(typ string) (shape, bool) {
	action := tokenField("action_id", 255)
	confirm := objField("confirm", famConfirm)
	focus := boolField("focus_on_load")
	placeholder := plainField("placeholder", 150)
	switch typ {
	case "button":
		return shape{fields: []field{action, req(plainField("text", 75)), tokenField("url", 3000), tokenField("value", 2000),
			enumField("style", "primary", "danger"), confirm, tokenField("accessibility_label", 75), idsField("visible_to_user_ids")}}, true
	case "image":
		return imageElement(), true
	case "overflow":
		return shape{fields: []field{action, req(listField("options", famOption, 2, 5)), confirm}}, true
	case "radio_buttons":
		return shape{fields: []field{action, req(listField("options", famOption, 1, 10)), objField("initial_option", famOption), confirm, focus}}, true
	case "checkboxes":
		return shape{fields: []field{action, req(listField("options", famOption, 1, 10)), listField("initial_options", famOption, 1, 10), confirm, focus}}, true
	case "datepicker", "timepicker", "datetimepicker":
		return shape{fields: []field{action, placeholder, confirm, focus, tokenField("initial_date", 0), tokenField("initial_time", 0),
			anyField("initial_date_time"), tokenField("timezone", 0)}}, true
	}
	if strings.HasSuffix(typ, "_select") {
		return selectShape(typ, []field{action, placeholder, confirm, focus})
	}
	return inputShape(typ, []field{action, placeholder, focus})
}

// selectShape lists the select menus, which share their common fields.
func selectShape(typ string, common []field) (shape, bool) {
	base, multi := strings.CutPrefix(typ, "multi_")
	fields := common
	initial := func(single, many string) {
		if multi {
			fields = append(fields, idsField(many), intField("max_selected_items", 1, 0))
			return
		}
		fields = append(fields, tokenField(single, 0))
	}
	initialOption := func() {
		if multi {
			fields = append(fields, listField("initial_options", famOption, 1, 100), intField("max_selected_items", 1, 0))
			return
		}
		fields = append(fields, objField("initial_option", famOption))
	}
	var anyOf []string
	switch base {
	case "static_select":
		anyOf = []string{"options", "option_groups"}
		fields = append(fields, listField("options", famOption, 1, 100), listField("option_groups", famOptionGroup, 1, 100))
		initialOption()
	case "external_select":
		fields = append(fields, intField("min_query_length", 0, 0))
		initialOption()
	case "users_select":
		initial("initial_user", "initial_users")
	case "conversations_select":
		fields = append(fields, boolField("default_to_current_conversation"), boolField("response_url_enabled"), objField("filter", famConversation))
		initial("initial_conversation", "initial_conversations")
	case "channels_select":
		fields = append(fields, boolField("response_url_enabled"))
		initial("initial_channel", "initial_channels")
	default:
		return shape{}, false
	}
	return shape{fields: fields, anyOf: anyOf}, true
}

// inputShape lists the elements that only an input block takes.
func inputShape(typ string, common []field) (shape, bool) {
	dispatch := objField("dispatch_action_config", famDispatch)
	switch typ {
	case "plain_text_input":
		return shape{fields: append(common, dispatch, tokenField("initial_value", 3000), boolField("multiline"),
			intField("min_length", 0, 3000), intField("max_length", 1, 3000))}, true
	case "email_text_input", "url_text_input":
		return shape{fields: append(common, dispatch, tokenField("initial_value", 0))}, true
	case "number_input":
		return shape{fields: append(common, dispatch, req(boolField("is_decimal_allowed")), tokenField("initial_value", 0),
			tokenField("min_value", 0), tokenField("max_value", 0))}, true
	case "file_input":
		return shape{fields: append(common, idsField("filetypes"), intField("max_files", 1, 10))}, true
	}
	return shape{}, false
}

func imageElement() shape {
	return shape{anyOf: []string{"image_url", "slack_file"}, fields: []field{tokenField("image_url", 3000),
		objField("slack_file", famSlackFile), req(proseField("alt_text", 2000))}}
}

func contextActionShape(typ string) (shape, bool) {
	action := tokenField("action_id", 255)
	switch typ {
	case "feedback_buttons":
		return shape{fields: []field{action, req(objField("positive_button", famFeedback)), req(objField("negative_button", famFeedback))}}, true
	case "icon_button":
		return shape{fields: []field{action, req(plainField("text", 75)), req(enumField("icon", "trash")), tokenField("value", 2000),
			objField("confirm", famConfirm), tokenField("accessibility_label", 75), idsField("visible_to_user_ids")}}, true
	}
	return shape{}, false
}

func richPartShape(typ string) (shape, bool) {
	elements := req(listField("elements", famRichElement, 0, 0))
	border := intField("border", 0, 1)
	switch typ {
	case "rich_text_section":
		return shape{fields: []field{elements}}, true
	case "rich_text_preformatted":
		return shape{fields: []field{elements, border, tokenField("language", 0)}}, true
	case "rich_text_quote":
		return shape{fields: []field{elements, border}}, true
	case "rich_text_list":
		return shape{fields: []field{req(listField("elements", famRichSection, 0, 0)), req(enumField("style", "bullet", "ordered")),
			intField("indent", 0, 8), intField("offset", 0, 0), border}}, true
	}
	return shape{}, false
}

func richElementShape(typ string) (shape, bool) {
	style := objField("style", famRichStyle)
	id := func(name string) field { return req(field{name: name, kind: kindToken, min: 1}) }
	switch typ {
	case "text":
		return shape{fields: []field{req(proseField("text", 0)), style}}, true
	case "link":
		return shape{fields: []field{req(field{name: "url", kind: kindToken, min: 1, max: 3000}), proseField("text", 0), boolField("unsafe"), style}}, true
	case "user":
		return shape{fields: []field{id("user_id"), style}}, true
	case "usergroup":
		return shape{fields: []field{id("usergroup_id"), style}}, true
	case "channel":
		return shape{fields: []field{id("channel_id"), style}}, true
	case "team":
		return shape{fields: []field{id("team_id"), style}}, true
	case "emoji":
		return shape{fields: []field{id("name"), tokenField("unicode", 0), intField("skin_tone", 0, 6), style}}, true
	case "date":
		return shape{fields: []field{req(intField("timestamp", 0, 0)), id("format"), tokenField("url", 3000), tokenField("fallback", 0), style}}, true
	case "broadcast":
		return shape{fields: []field{req(enumField("range", "here", "channel", "everyone")), style}}, true
	case "color":
		return shape{fields: []field{id("value"), style}}, true
	}
	return shape{}, false
}

func cellShape(typ string) (shape, bool) {
	switch typ {
	case "raw_text":
		return shape{fields: []field{req(proseField("text", 0))}}, true
	case "raw_number":
		return shape{fields: []field{req(anyField("value")), tokenField("text", 0)}}, true
	case "rich_text":
		return shape{fields: []field{tokenField("block_id", 255), req(listField("elements", famRichPart, 1, 0))}}, true
	}
	return shape{}, false
}
