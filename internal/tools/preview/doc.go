// Package preview shows the records that rows become, without Kafka: of rows in the table ([Rows]), and of rows as they
// are committed ([Stream]). Neither moves the relay's slot.
package preview
