package migrate

// converterRules judges the options of key.converter, value.converter and header.converter.
var converterRules = []rule{
	{options: "schemas.enable", verdict: Translated, note: betweenJSON},
	{options: "schemas.cache.size converter.type", verdict: Without, note: "It changes no byte."},
	{
		options: "replace.null.with.default", when: is("false"), verdict: Decide,
		note: "NULL stays NULL where a column has a default: check columns with defaults among key, headers and " +
			"envelope fields.",
	},
	{
		options: "decimal.format", when: is("numeric"), verdict: Decide,
		note: "Decimals as JSON numbers: it matters for numeric columns with json converters only. Compare side by " +
			"side.",
	},
	{options: "replace.null.with.default decimal.format", verdict: Without, note: "The default."},
	{options: "encoding converter.encoding", when: is("utf-8", "utf8"), verdict: Without, note: "The default."},
	{options: "encoding converter.encoding", verdict: Refused, note: "Text is UTF-8 here."},
	{
		options: "delegate.converter.type*", verdict: Decide,
		note: "Rows without bytes go through this converter: that is the transaction metadata and heartbeats, or a " +
			"payload that is no bytea. Check that the payload column is bytea.",
	},
	{
		options: "*schema.registry* *apicurio* *basic.auth* *auto.register* *subject.name*", verdict: Refused,
		note: "No schema registry is asked.",
	},
	{
		options: "*", verdict: Unknown,
		note: "An option of the converter that this version does not know; find out whether it changes bytes.",
	},
}

const betweenJSON = "Decides between json and json_with_schema."
