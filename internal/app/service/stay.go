package service

import (
	"github.com/cdc-outbox/cdc-outbox/internal/base/alert"
	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/relay/stay"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/diagnose"
)

// newStay makes the attempts of a process, as on_fault says.
func newStay(p *process, last *lastWord) *stay.Stay {
	return stay.New(stay.Config{On: p.Config.OnFault == config.OnFaultStay, Word: last, Logger: p.Logger})
}

// standingFinding is the alert while the process stays. The slot is empty with source: polling.
func standingFinding(s *stay.Stay, slot string) alert.Finding {
	f := alert.Finding{Alert: diagnose.ConnectorStopped, Subject: slot}
	if now := s.Standing(); now != nil {
		f.Level, f.Sentence = alert.Critical, "The connector has stopped and waits for an operator: "+now.State.Reason
	}
	return f
}
