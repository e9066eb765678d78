package migrate

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Step is one thing to do, in order.
type Step struct {
	Do       string   `json:"do"`
	Commands []string `json:"commands,omitempty"`
	Why      string   `json:"why,omitempty"`
}

func (m *migration) position() string {
	return fmt.Sprintf("psql \"$CDC_OUTBOX_POSTGRES_DSN\" -c \"SELECT slot_name, plugin, active, restart_lsn, confirmed_flush_lsn, pg_current_wal_lsn() FROM pg_replication_slots WHERE slot_name = '%s'\"", m.slotName())
}

func (m *migration) stop() []string {
	if m.in.Form == DebeziumServer {
		return []string{"kill -TERM <pid of Debezium Server>"}
	}
	return []string{fmt.Sprintf("curl -sS -X PUT %s   # Kafka Connect 3.5 and later; before, DELETE the connector and keep its JSON", m.connector("stop"))}
}

func (m *migration) start() []string {
	if m.in.Form == DebeziumServer {
		return []string{"start Debezium Server with its old configuration"}
	}
	return []string{"curl -sS -X PUT " + m.connector("resume")}
}

func (m *migration) name() string {
	if m.in.Name == "" {
		return "NAME"
	}
	return url.PathEscape(m.in.Name)
}

var (
	slotName  = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)
	plainWord = regexp.MustCompile(`^[A-Za-z0-9._%-]+$`)
	plainPath = regexp.MustCompile(`^[A-Za-z0-9._%/][A-Za-z0-9._%/-]*$`)
)

// slotName is for commands that somebody pastes; what is no slot's name is not to be run.
func (m *migration) slotName() string {
	if slotName.MatchString(m.slot) {
		return m.slot
	}
	return "SLOT"
}

// connector is the address of the connector in Connect's REST interface, as a word of the shell.
func (m *migration) connector(action string) string {
	address := "http://CONNECT:8083/connectors/" + m.name() + "/" + action
	if plainWord.MatchString(m.name()) {
		return address
	}
	return quoted(address)
}

// configFile is the configuration's name as a word of the shell. Without one it is to be saved under the usual name.
func configFile(name string) string {
	switch {
	case name == "":
		return "cdc-outbox.yaml"
	case plainPath.MatchString(name):
		return name
	}
	return quoted(name)
}

// quoted is one word to the shell, whatever it holds.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// takeover is the way over on the same slot and publication.
func (m *migration) takeover() []Step {
	return []Step{
		{
			Do:       "Settle what is left to decide above, save the configuration, and let it be checked. The slot shows as active: Debezium reads it.",
			Commands: []string{"cdc-outbox check --config " + m.file},
		},
		{
			Do:       "Stop Debezium's connector; do not delete the slot, the publication or the connector's offsets.",
			Commands: m.stop(),
			Why:      "A slot has one reader. If slot.drop.on.stop is true, set it to false and restart the connector first: stopping it would drop the slot.",
		},
		{
			Do:       "See that the slot is free (active = f), has the plugin pgoutput, and where it stands.",
			Commands: []string{m.position()},
			Why:      "What is committed behind confirmed_flush_lsn is sent by whoever reads the slot next. Debezium moves it only after Connect has committed its offsets (offset.flush.interval.ms, a minute by default), so it may lie behind what Debezium has produced: those events arrive once more, with the same id header. None is missing. Do not advance the slot to save the repeats.",
		},
		{
			Do:       "Start this one.",
			Commands: []string{"cdc-outbox run --config " + m.file, "cdc-outbox status --config " + m.file},
			Why:      "It starts at the slot's confirmed position. Debezium's offsets, in connect-offsets or its file, may be ahead of the slot's position; they are not read, so the events in between are the repeats. Should the slot's position be ahead of theirs, Debezium would have started there too.",
		},
		{
			Do: "Keep the connector stopped, with its offsets, until you are sure.",
		},
	}
}

// rollback is the way back.
func (m *migration) rollback() []Step {
	return []Step{
		{Do: "Stop this one, gracefully (SIGTERM): it waits until everything in flight is acknowledged and confirmed.", Commands: []string{"kill -TERM <pid of cdc-outbox>"}},
		{Do: "See that the slot is free.", Commands: []string{m.position()}},
		{
			Do:       "Resume Debezium's connector with the same configuration.",
			Commands: m.start(),
			Why:      "Its stored offset is older than the slot's position now. Postgres never sends what lies before confirmed_flush_lsn, whatever start is asked for, so nothing is repeated and nothing is missing. With offset.mismatch.strategy=trust_greater_lsn or trust_slot (Debezium 3.4 and later) Debezium expects just that; with trust_offset it may refuse: set another one before.",
		},
		{
			Do:       "Should this one take over again later: forget the position that it remembers, for Debezium has moved the slot meanwhile.",
			Commands: []string{fmt.Sprintf("psql \"$CDC_OUTBOX_POSTGRES_DSN\" -c \"DELETE FROM public.cdc_outbox_slots WHERE slot = '%s'\"   # the table of postgres.checkpoint, where there is one", m.slotName())},
		},
	}
}

// sideBySide is how to run both and compare.
func (m *migration) sideBySide() []Step {
	replacement, ok := m.out["router.debezium.topic_replacement"].(string)
	if !ok {
		replacement = "outbox.event.${routedByValue}"
	}
	left, _, _ := strings.Cut(replacement, "$")
	slot := "cdc_outbox_verify"
	shadow := fmt.Sprintf("CDC_OUTBOX_POSTGRES_SLOT=%s CDC_OUTBOX_ROUTER_DEBEZIUM_TOPIC_REPLACEMENT=%s", slot, quoted("verify."+replacement))
	shadowWhy := "The shadow topics' events have no consumers; a short retention is enough."
	if _, ok := m.out["router.debezium.topic_regex"]; ok {
		shadowWhy += " A route value that router.debezium.topic_regex does not match is itself the topic, for both: those events would go to the live topic twice. " +
			"See first, with SELECT DISTINCT on the route column, that there are none, or give this one no right to write there."
	}
	return []Step{
		{
			Do:       "Make a second slot. The publication can be shared; it only names tables.",
			Commands: []string{fmt.Sprintf("psql \"$CDC_OUTBOX_POSTGRES_DSN\" -c \"SELECT pg_create_logical_replication_slot('%s', 'pgoutput')\"", slot)},
			Why:      "It holds back WAL of its own until it is dropped: watch it, and drop it when you are done. Debezium's own slot is not touched.",
		},
		{
			Do:       "Run this one on that slot, into topics with another prefix. Give those the same number of partitions.",
			Commands: []string{shadow + " cdc-outbox run --config " + m.file},
			Why:      shadowWhy,
		},
		{
			Do:       "Let both see events that cover every aggregate type, NULL payloads and the largest ones; then compare. --overlap leaves out what is only on one side because that side began earlier or has not arrived.",
			Commands: []string{fmt.Sprintf("cdc-outbox migrate verify --config %s --left-prefix %s --overlap --right-prefix %s", m.file, quoted(left), quoted("verify."+left))},
			Why:      "Events are matched by their id header and compared by key, value, headers, partition and order per key. Exit code 0: equal, 1: different.",
		},
		{
			Do:       "End the comparison: stop it, drop its slot, delete the shadow topics.",
			Commands: []string{fmt.Sprintf("psql \"$CDC_OUTBOX_POSTGRES_DSN\" -c \"SELECT pg_drop_replication_slot('%s')\"", slot)},
		},
	}
}
