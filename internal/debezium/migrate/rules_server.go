package migrate

// serverRules judges Debezium Server's own options of formats and sink, in its own file only.
var serverRules = []rule{
	{
		options: "debezium.sink.type", when: exactly("kafka"), verdict: Translated, key: "kafka.brokers",
		note: "Kafka is the sink in this program too.",
	},
	{options: "debezium.sink.type", verdict: Refused, note: "This program writes only to Kafka."},
	{options: "debezium.format.value", judge: serverFormat("value")},
	{options: "debezium.format.key", judge: serverFormat("key")},
	{options: "debezium.format.header", judge: serverHeaderFormat},
	{
		options: `debezium.format.value.schemas.enable debezium.format.key.schemas.enable
			debezium.format.header.schemas.enable`,
		verdict: Without,
		note:    betweenJSON,
	},
	{
		options: "debezium.format.schemas.enable", verdict: Decide,
		note: "It applies to all three formats; if it is false, set value_converter, key_converter and " +
			"header_converter to json.",
	},
}
