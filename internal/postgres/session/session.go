package session

import (
	"maps"

	"github.com/jackc/pgx/v5/pgconn"
)

// TextSettings are the run-time parameters on which the text forms of values depend. They belong to the record, so they
// must not be the server's or the role's. Every session that reads rows of the table for the router sets them, too.
func TextSettings() map[string]string {
	return map[string]string{
		"client_encoding": "UTF8", "DateStyle": "ISO", "TimeZone": "UTC", "IntervalStyle": "postgres",
		"extra_float_digits": "1", "bytea_output": "hex",
	}
}

// StreamSettings are the run-time parameters that the stream relies on.
func StreamSettings() map[string]string {
	settings := TextSettings()
	// a commit of the checkpoint waits for this server's disk, and for no standby
	settings["synchronous_commit"] = "local"
	settings["default_transaction_read_only"] = "off" // the checkpoint is written here
	settings["client_min_messages"] = "warning"       // from 18 on a missing publication is a warning
	settings["search_path"] = SearchPath
	return settings
}

// SetStreamParams makes pc a replication connection with the settings that the stream needs.
func SetStreamParams(pc *pgconn.Config, slot string) {
	maps.Copy(pc.RuntimeParams, StreamSettings())
	pc.RuntimeParams["replication"] = "database"
	pc.RuntimeParams["application_name"] = Application(slot)
}

// LostSettings is a column that lists which StreamSettings are not in force, NULL where all are. A server takes them
// with the startup packet or refuses the connection; a pooler can be configured to drop what it does not know
// (ignore_startup_parameters).
var LostSettings = func() string {
	return `(SELECT pg_catalog.string_agg(w.name, ', ' ORDER BY w.name) FROM (VALUES ` + values(StreamSettings()) +
		`) AS w(name, value) WHERE pg_catalog.split_part(pg_catalog.current_setting(w.name), ',', 1)
		OPERATOR(pg_catalog.<>) w.value)`
}()
