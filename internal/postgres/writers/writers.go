// Package writers recognizes the outbox tables that libraries make, by their columns, and has the configuration for
// each: the blocks of docs/writers.md.
package writers

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/cdc-outbox/cdc-outbox/docs"
)

// Writer is a library that writes outbox tables.
type Writer struct {
	Name   string // of the library
	Router string // the section router of a configuration file, ending with a line feed
}

// signature are the columns by which a library's table is recognized.
type signature struct {
	block   string // of docs/writers.md
	has     []string
	hasNot  []string
	tableIs string // where another table of the library has the same columns
}

// The columns are enough for no other table to have them by accident. A library's inbox may have most of them.
var signatures = []signature{
	{block: "eventuate", has: []string{"destination", "headers", "payload", "published", "creation_time"}},
	{block: "watermill", has: []string{"offset", "uuid", "payload", "metadata", "transaction_id"}},
	{block: "masstransit", has: []string{"SequenceNumber", "MessageId", "MessageType", "Body", "DestinationAddress"}},
	{block: "modulith", has: []string{"listener_id", "event_type", "serialized_event", "publication_date"}},
	{block: "gruelbox", has: []string{"invocation", "nextattempttime", "attempts", "blocked", "version"}},
	{
		block: "cap", has: []string{"Id", "Version", "Name", "Content", "Retries", "Added", "StatusName"},
		hasNot: []string{"Group"},
	},
	{block: "wolverine", has: []string{"owner_id", "destination", "deliver_by", "body", "message_type"}},
	{block: "sbmt", has: []string{"uuid", "event_key", "bucket", "options", "proto_payload"}},
	{block: "active", has: []string{"identifier", "event", "payload", "aggregate", "aggregate_identifier"}},
	{block: "django", has: []string{"version", "destination", "body", "added", "expires_at", "retry", "status"}},
	{block: "faststream", has: []string{"queue", "payload", "attempts_count", "deliveries_count", "acquired_token"}},
	{
		block: "npm", tableIs: "outbox",
		has: []string{"aggregate_type", "message_type", "segment", "concurrency", "locked_until", "started_attempts"},
	},
}

// Of returns the library whose table has this name and these columns, nil for none that is known.
func Of(table string, columns []string) *Writer {
	for _, s := range signatures {
		if s.fits(table, columns) {
			return blocks()[s.block]
		}
	}
	return nil
}

func (s signature) fits(table string, columns []string) bool {
	for _, c := range s.has {
		if !slices.Contains(columns, c) {
			return false
		}
	}
	return (s.tableIs == "" || s.tableIs == table) &&
		!slices.ContainsFunc(s.hasNot, func(c string) bool { return slices.Contains(columns, c) })
}

var block = regexp.MustCompile("(?sm)<!-- writer: (\\w+) -->\n```yaml\n.*?^(router:\n.*?)```")

// blocks are the configurations of the page, by their names there.
var blocks = sync.OnceValue(func() map[string]*Writer {
	all := map[string]*Writer{}
	for part := range strings.SplitSeq(string(docs.Writers), "\n## ") {
		title, _, _ := strings.Cut(part, "\n")
		for _, m := range block.FindAllStringSubmatch(part, -1) {
			all[m[1]] = &Writer{Name: title, Router: m[2]}
		}
	}
	return all
})
