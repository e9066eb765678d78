// Package webhook posts alerts to a URL: as JSON of its own, to Prometheus's Alertmanager, or to Slack.
//
// Send never blocks, so a receiver that hangs delays nothing. The queue is bounded: it holds only the latest state of
// each alert, because a receiver that was away wants to know how things are, not how they were. A state is sent again
// until the receiver has answered; when an answer is lost, the state arrives twice, with the same id.
//
// The URL is a secret: it often contains an access token. No error that leaves the package contains it, or the name of
// a host.
package webhook
