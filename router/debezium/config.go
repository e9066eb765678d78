package debezium

import (
	"errors"
	"slices"

	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
	"github.com/cdc-outbox/cdc-outbox/pgoutput"
	"github.com/cdc-outbox/cdc-outbox/router"
	"github.com/cdc-outbox/cdc-outbox/router/internal/connect"
	"github.com/cdc-outbox/cdc-outbox/router/internal/java"
	"github.com/cdc-outbox/cdc-outbox/router/internal/message"
	"github.com/cdc-outbox/cdc-outbox/router/internal/pgtype"
)

// Config configures the preset debezium: records as the outbox event router of Debezium's PostgreSQL connector makes
// them, byte for byte. The comments name Debezium's options and use the words of these options unless they say
// otherwise. docs/debezium-differences.md lists the intended differences.
type Config struct {
	TopicPrefix      string // topic.prefix
	Columns          Columns
	TopicRegex       string // route.topic.regex
	TopicReplacement string // route.topic.replacement
	// not empty: the topic of all rows, whatever their route value, which may then be anything
	Topic            string
	Additional       []string // table.fields.additional.placement: column:header|envelope|partition[:alias]
	IgnoreMissing    bool     // table.field.additional.missing is ignore
	TombstoneOnEmpty bool     // route.tombstone.on.empty.payload
	Expand           ExpandJSON

	ValueConverter  string // string, json, json_with_schema, binary
	KeyConverter    string // the same
	HeaderConverter string // simple, string, json, json_with_schema
	ContextHeaders  bool   // extended.headers.enabled
	PositionHeader  bool   // a last header `position`, which Debezium does not have
	RunID           string // of this start, a UUIDv7; a context header

	DecimalHandling  string // decimal.handling.mode
	TimePrecision    string // time.precision.mode
	BinaryHandling   string // binary.handling.mode
	HStoreHandling   string // hstore.handling.mode
	IntervalHandling string // interval.handling.mode

	DeadLetterTopic string // to which no event may lead; empty: none

	// Catalog reports the facts that a table's Relation message lacks. It is called once for each Relation, and only if
	// something depends on it. Without it types without a fixed OID count as text, and the columns of the replica
	// identity as NOT NULL.
	Catalog func(rel *pgoutput.Relation) (router.Catalog, error)
}

// ExpandJSON is table.expand.json.payload and its further options.
type ExpandJSON struct {
	Enabled        bool
	KeepNulls      bool // table.json.payload.null.behavior is optional_bytes
	KeepEmptyLists bool // table.json.payload.empty.array.behavior is optional_string
}

// Columns names the columns; see the options table.field.event.* and route.by.field.
type Columns struct {
	ID, Key, Payload, Route string // required
	Timestamp               string // empty: none
	SchemaVersion           string
	Tracing                 string
}

// Default returns the options' defaults, with values and keys as StringConverter writes them.
func Default() *Config {
	return &Config{
		Columns:    Columns{ID: "id", Key: "aggregateid", Payload: "payload", Route: "aggregatetype"},
		TopicRegex: "(?<routedByValue>.*)", TopicReplacement: "outbox.event.${routedByValue}",
		ValueConverter: "string", KeyConverter: "string", HeaderConverter: "simple", ContextHeaders: true,
		DecimalHandling: "precise", TimePrecision: "adaptive", BinaryHandling: "bytes", HStoreHandling: "json",
		IntervalHandling: "numeric",
	}
}

// validate reports every problem at once, each as a *fault.Error of kind Config.
func (d *Config) validate() error {
	var errs []error
	add := func(key, next string, err error) {
		if err != nil {
			errs = append(errs, &fault.Error{
				Kind: fault.Config, Object: "router.debezium." + key, Err: err, Next: next,
			})
		}
	}
	for _, c := range []struct{ role, column string }{
		{"id", d.Columns.ID}, {"key", d.Columns.Key}, {"payload", d.Columns.Payload}, {"route", d.Columns.Route},
	} {
		if c.column == "" {
			add("columns."+c.role, "Name the column of the outbox table that holds it.",
				errors.New("no column is named"))
		}
	}
	if d.TopicPrefix == "" {
		add("topic_prefix", "Take the value of topic.prefix from the connector's configuration.",
			errors.New("is empty"))
	}
	_, err := d.parsePlacements()
	add("additional", "Write entries such as type:header:eventType.", err)
	if _, err = java.NewReplacer(d.TopicRegex, ""); err != nil {
		add("topic_regex", "Write the pattern in a simpler way, with the same meaning.", err)
	} else {
		_, err = java.NewReplacer(d.TopicRegex, d.TopicReplacement)
		add("topic_replacement", `Name groups of topic_regex as $1 or ${name}, and write \$ for a dollar.`, err)
	}
	if d.Expand.Enabled && d.ValueConverter == converterBinary {
		add("expand_json", "Set router.debezium.value_converter to json or json_with_schema.",
			errors.New("the converter binary cannot write an expanded payload"))
	}
	return errors.Join(errs...)
}

// CheckPattern returns an error when a Java pattern cannot be used.
func CheckPattern(pattern string) error {
	_, err := java.NewReplacer(pattern, "")
	return err
}

// CheckPlacement returns an error when an entry of Additional cannot be used.
func CheckPlacement(entry string) error {
	_, err := (&Config{Additional: []string{entry}}).parsePlacements()
	return err
}

// ChoosesPartition reports whether an entry of Additional has a column choose a record's partition, whatever its key.
func ChoosesPartition(additional []string) bool {
	all, err := (&Config{Additional: additional}).parsePlacements()
	return err == nil && slices.ContainsFunc(all, func(p placement) bool { return p.where == placedPartition })
}

// Topics returns the function from route value to topic; it returns an empty name if the pattern is not supported or
// the value is not printable ASCII.
func Topics(pattern, replacement string) func(route string) string {
	r, err := java.NewReplacer(pattern, replacement)
	return func(route string) string {
		if err != nil || !java.Printable([]byte(route)) {
			return ""
		}
		if name, matched := r.Replace(route); matched {
			return name
		}
		return route
	}
}

// Router makes records as Debezium's event router does. It keeps its buffers from row to row.
type Router struct {
	cfg        *Config
	types      pgtype.Options
	placements []placement
	needs      []router.Need
	envelope   bool // the value is a struct of the payload and other columns

	context []router.Header // the same for all records
	topics  map[string]string
	taken   string // topic that is none for events
	replace *java.Replacer

	plans map[uint32]*plan // by relation OID
	last  *plan

	messages *message.Rows // nil until the first one

	buf     []byte
	list    []router.Header
	schemas map[envelopeKey]*envelopeSchema
	record  router.Record
}

// New returns a Router, or the errors of its configuration.
func New(cfg *Config) (*Router, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	d := &Router{
		cfg: cfg, taken: cfg.DeadLetterTopic, needs: cfg.Needs(), topics: make(map[string]string),
		plans: make(map[uint32]*plan), schemas: make(map[envelopeKey]*envelopeSchema),
		types: pgtype.Options{
			Decimal: cfg.DecimalHandling, Time: cfg.TimePrecision, Binary: cfg.BinaryHandling,
			HStore: cfg.HStoreHandling, Interval: cfg.IntervalHandling,
		},
	}
	d.placements, _ = cfg.parsePlacements()                               // validated
	d.replace, _ = java.NewReplacer(cfg.TopicRegex, cfg.TopicReplacement) // validated
	for _, p := range d.placements {
		d.envelope = d.envelope || p.where == placedEnvelope
	}
	if cfg.ContextHeaders {
		h := newConverter(cfg.HeaderConverter, &connect.Schema{Type: connect.String})
		for _, c := range [][2]string{
			{"connectorLogicalName", cfg.TopicPrefix},
			{"taskId", "0"},
			{"connectorName", "postgresql"},
			{"runId", cfg.RunID},
		} {
			v := connect.Text([]byte(c[1]))
			d.context = append(d.context, router.Header{Key: contextPrefix + c[0], Value: h.append(nil, &v)})
		}
	}
	return d, nil
}
