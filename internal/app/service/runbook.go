package service

import (
	"net"
	"os"

	"github.com/cdc-outbox/cdc-outbox/internal/config"
	"github.com/cdc-outbox/cdc-outbox/internal/watch/runbook"
)

// runbook is the URL of an alert's section in the runbook, for messages. They are read on other hosts, so the URL is
// absolute. It is asked once the address is bound.
func (p *process) runbook(alert string) string {
	if p.Config.Monitor.RunbookURL == config.RunbookSelf && p.server != nil {
		if own := ownAddress(p.server.Addr(), os.Hostname); own != "" {
			return runbook.Section(own+runbook.Path, alert)
		}
	}
	return Runbook(p.Config, alert)
}

// Runbook is the URL of a section in the runbook, for a command's error. No process serves the runbook to a command, so
// `self` is the published one.
func Runbook(c *config.Loaded, section string) string {
	switch base := c.Monitor.RunbookURL; base {
	case config.RunbookPublished, config.RunbookSelf:
		return runbook.Section(runbook.Published, section)
	default:
		return runbook.Section(base, section)
	}
}

// runbookFromPage is the URL of an alert's section, for /status and so for the page: relative to the page if this
// process serves the runbook itself, because only the browser knows the address that leads here.
func (p *process) runbookFromPage(alert string) string {
	if p.Config.Monitor.RunbookURL == config.RunbookSelf {
		return runbook.Section(runbook.Path, alert)
	}
	return Runbook(p.Config, alert)
}

// ownAddress is the page's address for browsers on other hosts; "" if that is not known.
func ownAddress(listens string, hostname func() (string, error)) string {
	host, port, err := net.SplitHostPort(listens)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host, err = hostname(); err != nil {
			return ""
		}
	}
	return "http://" + net.JoinHostPort(host, port) + "/"
}
