// Package slacksim is a Slack workspace that runs on loopback: the Web API methods a bot needs, Socket Mode over a real
// WebSocket, people, channels and user groups, Slack's own rules about who may see and do what, its limits and its error
// shapes, and faults on demand. A bot talks to it through the real Slack client by pointing the client's API URL here;
// a test, a demo or an eval plays the people through As. State lives in memory and outlives restarts of the bot. It must
// not know what the bot is for, nor import anything of ours but blockkit.
//
// What is simulated follows Slack's documentation (https://docs.slack.dev) and public bug reports; where Slack's behaviour
// is not established the simulator takes the stricter reading, and the comment at that place says so.
package slacksim
