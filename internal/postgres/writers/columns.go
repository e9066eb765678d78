package writers

import (
	"slices"
	"strings"
)

// Column is a column of a table, with its type as format_type prints it.
type Column struct {
	Name, Type string
	Primary    bool // the table's primary key, alone
}

// Topic is the role of a column that names the topic itself. The other roles are the keys below router.columns.
const Topic = "topic"

// role is the purpose of an outbox's column, and the names and types by which a column has it.
type role struct {
	key      string
	standard string   // the default of router.columns
	names    []string // folded, in the order in which one is preferred
	suits    func(sqlType string) bool
}

// roles are in the order in which they choose: a column has one role. A key may have a second entry, for other names.
var roles = []role{
	{"id", "id", []string{
		"id", "eventid", "messageid", "uuid", "guid", "outboxid", "outboxeventid", "outboxmessageid", "recordid",
	}, identifies},
	{"aggregate_type", "aggregate_type", []string{
		"aggregatetype", "aggregatename", "aggregateroottype", "aggregate", "entitytype", "entityname", "entity",
		"objecttype", "resourcetype", "sourcetype", "subjecttype", "streamtype",
	}, names},
	{Topic, "", []string{
		"topic", "topicname", "kafkatopic", "destination", "destinationtopic", "channel", "queue", "queuename",
		"exchange", "stream", "streamname", "routingkey",
	}, names},
	{"aggregate_id", "aggregate_id", []string{
		"partitionkey", "messagekey", "kafkakey", "recordkey", "aggregateid", "aggregaterootid", "aggregatekey",
		"aggregateidentifier", "eventkey", "routingkey", "key", "entityid", "objectid", "resourceid", "sourceid",
		"subjectid", "streamid", "subject", "correlationid",
	}, identifies},
	{"type", "event_type", []string{
		"eventtype", "messagetype", "type", "eventname", "messagename", "typename", "event", "name", "kind", "action",
		"operation",
	}, names},
	{"payload", "payload", []string{
		"payload", "payloadjson", "eventpayload", "messagepayload", "data", "eventdata", "datajson", "eventjson",
		"body", "eventbody", "messagebody", "message", "content", "value", "json", "event", "arguments", "args",
	}, carries},
	{"headers", "headers", []string{
		"headers", "headersjson", "messageheaders", "eventheaders", "metadata", "eventmetadata", "meta", "attributes",
	}, isJSON},
	{"headers", "headers", []string{"headers", "headersjson", "messageheaders", "eventheaders", "headerbag"}, isText},
	{"timestamp", "created_at", []string{
		"createdat", "occurredat", "occuredat", "occurredon", "occuredon", "occurredonutc", "occurredatutc",
		"createdon", "createdatutc", "createdonutc", "created", "datecreated", "createddate", "creationdate",
		"creationtime", "insertedat", "insertdate", "eventtime", "eventtimestamp", "timestamp", "time", "date",
		"raisedat", "recordedat", "addedat",
	}, isTime},
}

// Match returns the column of each role that has one.
func Match(columns []Column) map[string]string {
	found, taken := map[string]string{}, map[string]bool{}
	for _, r := range roles {
		if found[r.key] != "" {
			continue
		}
		if name := r.choose(columns, taken, found); name != "" {
			found[r.key], taken[name] = name, true
		}
	}
	refer(columns, found, taken)
	if found["id"] == "" {
		if i := slices.IndexFunc(columns, func(c Column) bool { return c.Primary && !taken[c.Name] }); i >= 0 {
			found["id"] = columns[i].Name
		}
	}
	return found
}

func (r role) choose(columns []Column, taken map[string]bool, found map[string]string) string {
	for _, name := range r.names {
		if name == "routingkey" && folded(found[Topic]) == "exchange" {
			continue // it is a part of the topic's name then: events of one key have several
		}
		for _, c := range columns {
			if !taken[c.Name] && r.suits(c.Type) && folded(c.Name) == name {
				return c.Name
			}
		}
	}
	return ""
}

// Standard returns the column that the default configuration names for a role, empty for Topic.
func Standard(key string) string {
	for _, r := range roles {
		if r.key == key {
			return r.standard
		}
	}
	return ""
}

// Suits reports whether a column of the type can have the role.
func Suits(key, sqlType string) bool {
	for _, r := range roles {
		if r.key == key {
			return r.suits(sqlType)
		}
	}
	return true
}

// folded is a name without case and separators: EventData, event_data and eventData are one.
func folded(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}

func begins(sqlType string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(s string) bool { return strings.HasPrefix(sqlType, s) })
}

func isJSON(t string) bool { return t == "json" || t == "jsonb" }
func isTime(t string) bool { return begins(t, "timestamp") }

func isText(t string) bool { return begins(t, "text", "character") }

// names reports whether the values can be words: text, or an enumeration, whose type has a name of its own.
func names(t string) bool {
	return !strings.HasSuffix(t, "[]") && !isJSON(t) && !isTime(t) && !begins(t, "uuid", "bytea", "boolean", "smallint",
		"integer", "bigint", "numeric", "real", "double", "date", "time", "interval", "bit", "inet", "xml", "hstore")
}

// identifies reports whether the values can tell things apart.
func identifies(t string) bool {
	return names(t) || begins(t, "uuid", "smallint", "integer", "bigint", "numeric")
}

// carries reports whether the values can hold an event.
func carries(t string) bool {
	return isJSON(t) || begins(t, "text", "character", "bytea", "xml", "citext")
}
