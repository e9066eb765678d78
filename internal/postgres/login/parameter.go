package login

import (
	"net/url"
	"strings"
)

// WithParameter adds a parameter to a connection string, which is a URL or keyword=value pairs. Of several with one
// name the last one counts, for the driver as for libpq.
func WithParameter(dsn, name, value string) string {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		quoted := "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
		return strings.TrimSpace(dsn + " " + name + "=" + quoted)
	}
	separator := "?"
	_, rest, _ := strings.Cut(dsn, "://")
	if at := strings.IndexAny(rest, "@/"); at >= 0 && rest[at] == '@' {
		rest = rest[at:] // a password may hold a question mark
	}
	if strings.HasSuffix(rest, "?") {
		separator = ""
	} else if strings.Contains(rest, "?") {
		separator = "&"
	}
	return dsn + separator + name + "=" + strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}
