package migrate

// converterRules judges the options of key.converter, value.converter and header.converter.
var converterRules = []rule{
	{options: "schemas.enable", verdict: Translated, note: betweenJSON},
	{options: "schemas.cache.size converter.type", verdict: Without, note: "It does not change the records."},
	{
		options: "replace.null.with.default", when: is("false"), verdict: Decide,
		note: "In this program NULL stays NULL in a column with a default: check such columns among key, headers and " +
			"envelope fields.",
	},
	{
		options: "decimal.format", when: is("numeric"), verdict: Decide,
		note: "Decimals as JSON numbers: it matters for numeric columns with json converters only. Compare side by " +
			"side.",
	},
	{options: "replace.null.with.default decimal.format", verdict: Without, note: "The default."},
	{options: "encoding converter.encoding", when: is("utf-8", "utf8"), verdict: Without, note: "The default."},
	{options: "encoding converter.encoding", verdict: Refused, note: "This program writes UTF-8."},
	{
		options: "delegate.converter.type*", verdict: Decide,
		note: "This converter gets rows without bytes: transaction metadata, heartbeats, and payloads that are not " +
			"bytea. Check that the payload column is bytea.",
	},
	{
		options: "*schema.registry* *apicurio* *basic.auth* *auto.register* *subject.name*", verdict: Refused,
		note: "This program does not use a schema registry.",
	},
	{
		options: "*", verdict: Unknown,
		note: "This version does not know this option of the converter; find out whether it changes the records.",
	},
}

const betweenJSON = "It decides between json and json_with_schema."
