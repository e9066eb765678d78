package forward

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/cdc-outbox/cdc-outbox/inbox"
	"github.com/cdc-outbox/cdc-outbox/inbox/consumer"
	"github.com/cdc-outbox/cdc-outbox/internal/base/atfile"
	"github.com/cdc-outbox/cdc-outbox/internal/base/fault"
)

// Flags are the options as the command line has them.
type Flags struct {
	Topics, Headers, Pass             []string
	Pattern                           string
	Group, To, Prefix, ContentType    string
	DSN, Table                        string
	Timeout, Budget                   time.Duration
	AtMostOnce, CreateLedger, FromEnd bool
}

// Options reads the flags. Its errors are usage errors.
func (f *Flags) Options() (Options, error) {
	none := Options{}
	switch {
	case len(f.Topics) == 0 && f.Pattern == "":
		return none, fault.Usage("--topic is missing", "name the topics to read, or give a --pattern of their names")
	case f.Group == "":
		return none, fault.Usage("--group is missing", "name the consumer group; the ledger uses the same name")
	case f.Budget < f.Timeout:
		return none, fault.Usage("--budget must hold at least one --timeout",
			"raise --budget, or lower --timeout")
	case !httpguts.ValidHeaderFieldName(f.Prefix + "Id"):
		return none, fault.Usage("--header-prefix does not begin the name of a header", "use letters, digits and -")
	}
	if _, err := regexp.Compile(f.Pattern); err != nil {
		return none, fault.Usage("--pattern: "+err.Error(), `write a regular expression, such as '.*\.events'`)
	}
	to, err := url.Parse(f.To)
	if err != nil {
		return none, fault.Usage("--to is not an http or https URL", "write https://HOST/PATH")
	}
	if to.User != nil {
		return none, fault.Usage("--to contains credentials", "write them as --header 'Authorization: @FILE'")
	}
	o := Options{
		URL: to, Timeout: f.Timeout, AtMostOnce: f.AtMostOnce, Prefix: f.Prefix, ContentType: f.ContentType,
		Pass:   f.Pass,
		Ledger: inbox.Options{Consumer: f.Group, Strategy: inbox.Advisory, Table: f.Table},
		Consumer: consumer.Options{
			Group: f.Group, Topics: f.Topics, Pattern: f.Pattern, Budget: f.Budget, FromEnd: f.FromEnd,
			// A stop waits for the call under way, as far as the group allows.
			Drain: min(max(f.Timeout+time.Second, 10*time.Second), 25*time.Second),
		},
	}
	for _, text := range f.Headers {
		h, err := parseHeader(text)
		if err != nil {
			return none, err
		}
		o.Headers = append(o.Headers, h)
	}
	if err := o.check(); err != nil {
		return none, fault.Usage(err.Error(), "correct the command line")
	}
	return o, nil
}

// parseHeader reads NAME: VALUE. The value @FILE is read for each call, so that a token can change.
func parseHeader(text string) (Header, error) {
	name, value, ok := strings.Cut(text, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return Header{}, fault.Usage("--header is not NAME: VALUE", "write --header 'Authorization: @FILE'")
	}
	read := func() (string, error) { return atfile.Read(value) }
	if _, err := read(); err != nil {
		return Header{}, fault.Usage("--header "+name+": the file cannot be read", "write the value into the file")
	}
	return Header{name, read}, nil
}

// Ledger returns the connection string of the ledger; otherwise is asked if no flag names one.
func (f *Flags) Ledger(otherwise func() (string, error)) (string, error) {
	if f.DSN == "" {
		return otherwise()
	}
	dsn, err := atfile.Read(f.DSN)
	if err != nil {
		return "", fault.Usage("--ledger-dsn: the file cannot be read", "write a connection string into the file")
	}
	return dsn, nil
}
