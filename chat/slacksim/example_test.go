package slacksim_test

import (
	"context"
	"fmt"
	"log"

	"github.com/slack-go/slack"

	"blastdoor/chat/slacksim"
)

// A person sees what the app posts through the real client, and what happens when the app is not there.
func Example() {
	ws, err := slacksim.Start(slacksim.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer ws.Close()
	api := slack.New(ws.BotToken(), slack.OptionAppLevelToken(ws.AppToken()), slack.OptionAPIURL(ws.APIURL()))
	if _, _, err := api.PostMessage(slacksim.Ops, slack.MsgOptionText("*Ready*, <@U0BOB>", false)); err != nil {
		log.Fatal(err)
	}
	m, err := ws.WaitMessage(context.Background(), "ops", nil)
	if err != nil {
		log.Fatal(err)
	}
	m.TS = "1772373900.000000" // so that the output is the same every time
	fmt.Print(slacksim.PlainText(m))

	out, err := ws.As("alice").Slash("ops", "/runbook list")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Shown)
	// Output:
	// runbook (app) · 14:05
	// │ Ready, @bob
	// /runbook failed with the error "dispatch_failed"
}
