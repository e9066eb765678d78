// Package webhook posts the slot monitor's events to a URL: as JSON of its own, to Prometheus's Alertmanager, or to Slack.
//
// Send never blocks, so a receiver that hangs holds up nothing. What waits is bounded: per alert and slot only the latest
// state does, because a receiver that was away wants to know how it is, not how it was. A state is sent again until the
// receiver has answered; one whose answer was lost comes twice, with the same id.
//
// The URL is a secret: it often holds the token that lets one in. No error that leaves the package has it, or the name
// of a host.
package webhook
