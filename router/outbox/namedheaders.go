package outbox

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cdc-outbox/cdc-outbox/router"
)

// setHeaders compiles the headers that the configuration adds to every record. Their names stand for one thing each:
// twice the same, or one of the router's own, is refused.
func (r *Router) setHeaders() error {
	r.headers.reserved = r.cfg.reservedHeaders()
	seen := map[string]bool{router.HeaderID: true, router.HeaderType: true, router.HeaderPosition: true}
	check := func(name string) error {
		if seen[name] || r.headers.reserved != nil && r.headers.reserved(name) {
			return fmt.Errorf("the header name %q is reserved or used twice", name)
		}
		seen[name] = true
		return router.CheckHeaderName(name)
	}
	var errs []error
	for _, entry := range r.cfg.StaticHeaders {
		name, value, ok := strings.Cut(entry, "=")
		err := errors.New("an entry is not name=value") // not shown: the value may be anything
		if ok {
			err = check(name)
		}
		errs = append(errs, configError("static_headers", "Write entries such as source=shop.", err))
		r.headers.static = append(r.headers.static, router.Header{Key: name, Value: append([]byte{}, value...)})
	}
	for _, entry := range r.cfg.ColumnHeaders {
		n, err := parseNamed(entry)
		if err == nil {
			err = check(n.name)
		}
		errs = append(errs, configError("column_headers", "Write entries such as tenant or event_version:version.",
			err))
		r.columnHeaders = append(r.columnHeaders, n)
	}
	return errors.Join(errs...)
}

// reservedHeaders are the names that the format sets.
func (c *Config) reservedHeaders() func(string) bool {
	switch c.Format {
	case FormatCloudEventsBinary, FormatCloudEventsStructured:
		return func(name string) bool { return name == headerContentType || strings.HasPrefix(name, cePrefix) }
	}
	return nil
}
