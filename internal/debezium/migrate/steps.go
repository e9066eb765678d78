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
	return fmt.Sprintf("psql \"$CDC_OUTBOX_POSTGRES_DSN\" -c \"SELECT slot_name, plugin, active, restart_lsn, "+
		"confirmed_flush_lsn, pg_current_wal_lsn() FROM pg_replication_slots WHERE slot_name = '%s'\"", m.slotName())
}

func (m *migration) stop() []string {
	if m.in.Form == DebeziumServer {
		return []string{"kill -TERM <pid of Debezium Server>"}
	}
	return []string{fmt.Sprintf("curl -sS -X PUT %s   # Kafka Connect 3.5 and later; before, DELETE the connector and "+
		"keep its JSON", m.connector("stop"))}
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
	slotName  = regexp.MustCompile(`^[a-z0-9_]+$`)
	plainWord = regexp.MustCompile(`^[A-Za-z0-9._%-]+$`)
	plainPath = regexp.MustCompile(`^[A-Za-z0-9._%/][A-Za-z0-9._%/-]*$`)
)

// slotName is for commands that an operator pastes. A text that is not a valid slot name never gets into them.
func (m *migration) slotName() string {
	if len(m.slot) <= 63 && slotName.MatchString(m.slot) {
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

// configFile is the configuration's name as a word of the shell. Without a name it is the usual name.
func configFile(name string) string {
	switch {
	case name == "":
		return "cdc-outbox.yaml"
	case plainPath.MatchString(name):
		return name
	}
	return quoted(name)
}

// psql is the command that runs the statement, which holds no double quotes.
func psql(statement string) string {
	return `psql "$CDC_OUTBOX_POSTGRES_DSN" -c "` + statement + `"`
}

// quoted makes any text one word of the shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// takeover lists the steps to continue on the same slot and publication.
func (m *migration) takeover() []Step {
	return []Step{
		{
			Do: "Settle the open decisions above, save the configuration and check it. The check reports the slot as " +
				"active, because Debezium reads it.",
			Commands: []string{"cdc-outbox check --config " + m.file},
		},
		{
			Do:       "Stop Debezium's connector; do not delete the slot, the publication or the connector's offsets.",
			Commands: m.stop(),
			Why: "A slot has one reader. If slot.drop.on.stop is true, set it to false and restart the connector " +
				"first; otherwise stopping it drops the slot.",
		},
		{
			Do:       "Check that the slot is free (active = f) and has the plugin pgoutput, and note its position.",
			Commands: []string{m.position()},
			Why: "The next reader of the slot sends everything committed after confirmed_flush_lsn. Debezium " +
				"advances it only after Connect has committed its offsets (offset.flush.interval.ms, a minute by " +
				"default). Events that Debezium has produced since then are sent again, with the same id header. No " +
				"event is missing. Do not advance the slot to avoid the duplicates.",
		},
		{
			Do:       "Start cdc-outbox.",
			Commands: []string{"cdc-outbox run --config " + m.file, "cdc-outbox status --config " + m.file},
			Why: "It starts at the slot's confirmed position and does not read Debezium's offsets (connect-offsets " +
				"or its file). If the offsets are ahead of the slot, the events in between are the duplicates. If " +
				"the slot is ahead of the offsets, Debezium would have started at the slot's position too.",
		},
		{
			Do: "Keep the connector stopped, with its offsets, until you are sure.",
		},
	}
}

// rollback lists the steps back to Debezium.
func (m *migration) rollback() []Step {
	return []Step{
		{
			Do:       "Stop cdc-outbox gracefully (SIGTERM): it waits until all records in flight are confirmed.",
			Commands: []string{"kill -TERM <pid of cdc-outbox>"},
		},
		{Do: "Check that the slot is free.", Commands: []string{m.position()}},
		{
			Do:       "Resume Debezium's connector with the same configuration.",
			Commands: m.start(),
			Why: "Debezium's stored offset is now older than the slot's position. Postgres never sends what is " +
				"before confirmed_flush_lsn, whatever start is requested, so no event is repeated or missing. With " +
				"offset.mismatch.strategy=trust_greater_lsn or trust_slot (Debezium 3.4 and later) Debezium expects " +
				"this. With trust_offset it may refuse to start: change the setting first.",
		},
		{
			Do: "Before cdc-outbox takes over again later, delete its checkpoint, because Debezium has advanced the " +
				"slot in between.",
			Commands: []string{fmt.Sprintf("psql \"$CDC_OUTBOX_POSTGRES_DSN\" -c \"DELETE FROM "+
				"public.cdc_outbox_slots WHERE "+
				"slot = '%s'\"   # the table of postgres.checkpoint, if it exists", m.slotName())},
		},
	}
}

// sideBySide lists the steps to run both and compare.
func (m *migration) sideBySide() []Step {
	replacement, ok := m.out["router.debezium.topic_replacement"].(string)
	if !ok {
		replacement = "outbox.event.${routedByValue}"
	}
	left, _, _ := strings.Cut(replacement, "$")
	left = strings.ReplaceAll(left, `\`, "") // which in Java takes the next character as it is
	topics, topicsWhy := "--left-prefix "+quoted(left)+" --right-prefix "+quoted("verify."+left), ""
	if left == "" { // it would be a prefix of all topics, also of topics of other programs
		topics = "--topic TOPIC=verify.TOPIC"
		topicsWhy = "The events' topics have no prefix of their own: repeat --topic for each of them. "
	}
	slot := "cdc_outbox_verify"
	shadow := "CDC_OUTBOX_POSTGRES_SLOT=" + slot + " CDC_OUTBOX_ROUTER_DEBEZIUM_TOPIC_REPLACEMENT=" +
		quoted("verify."+replacement)
	shadowWhy := "The shadow topics have no consumers; a short retention is enough."
	if _, ok := m.out["router.debezium.topic_regex"]; ok {
		shadowWhy += " A route value that router.debezium.topic_regex does not match is itself the topic, for both " +
			"relays: such events would go to the live topic twice. " +
			"Check first, with SELECT DISTINCT on the route column, that there are no such values, or do not grant " +
			"cdc-outbox the right to write to the live topics."
	}
	return []Step{
		{
			Do: "Create a second slot. Both can share the publication; it only names tables.",
			Commands: []string{
				psql("SELECT pg_catalog.pg_create_logical_replication_slot('" + slot + "', 'pgoutput')"),
			},
			Why: "The second slot retains WAL until it is dropped: monitor it, and drop it when you are done. " +
				"Debezium's slot is not touched.",
		},
		{
			Do: "Run cdc-outbox on the second slot, into topics with another prefix. Create these topics with the " +
				"same number of partitions.",
			Commands: []string{shadow + " cdc-outbox run --config " + m.file},
			Why:      shadowWhy,
		},
		{
			Do: "Let both process events of every aggregate type, with NULL payloads and with the largest payloads; " +
				"then compare. --overlap ignores events that are on one side only because that side started earlier " +
				"or is ahead.",
			Commands: []string{fmt.Sprintf("cdc-outbox migrate verify --config %s --overlap %s", m.file, topics)},
			Why: topicsWhy + "Events are matched by their id header and compared by key, value, headers, partition " +
				"and order per key. Exit code 0: equal, 1: different.",
		},
		{
			Do:       "End the comparison: stop it, drop its slot, delete the shadow topics.",
			Commands: []string{psql("SELECT pg_catalog.pg_drop_replication_slot('" + slot + "')")},
		},
	}
}
