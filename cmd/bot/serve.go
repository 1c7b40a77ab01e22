package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"blastdoor"
	"blastdoor/internal/app"
	"blastdoor/simenv"
)

const serveHelp = `Connects to Slack over Socket Mode and runs runbooks until it is interrupted. The
database must exist (bot init). One process owns a database; a second one is refused.
` + configHelp

func (p program) serve(ctx context.Context, args []string) error {
	if err := none("serve", args); err != nil {
		return err
	}
	c, err := p.config(ctx)
	if err != nil {
		return err
	}
	if err := c.forSlack(); err != nil {
		return err
	}
	bot, err := app.Open(ctx, p.appConfig(c))
	if err != nil {
		return err
	}
	return errors.Join(bot.Run(ctx), bot.Close())
}

const initHelp = `Creates in BLASTDOOR_DATA the log (blastdoor.db) with its signing key, the key that marks
the bot's own messages, and the simulated infrastructure (world.db). It never touches what exists.
` + configHelp

func (p program) init(ctx context.Context, args []string) error {
	if err := none("init", args); err != nil {
		return err
	}
	c, err := p.config(ctx)
	if err != nil {
		return err
	}
	world, err := loadWorld(c.World)
	if err != nil {
		return err
	}
	if err := app.Init(ctx, c.files(), app.InitOptions{Origin: c.Origin, World: world, Now: p.now}); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "created %s and %s\n", c.files().Store(), c.files().World())
	return nil
}

func loadWorld(file string) (simenv.World, error) {
	if file == "" {
		return simenv.DefaultWorld()
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return simenv.World{}, &blastdoor.Error{Code: blastdoor.ErrNotFound, Where: "BLASTDOOR_WORLD", Msg: "the world cannot be read",
			Want: "leave it unset for the shipped world", Err: err}
	}
	return simenv.ParseWorld(file, data)
}
