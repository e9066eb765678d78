package migrate

import (
	"regexp"
	"strings"
)

// security judges TLS and SASL; kafka settles what several options say together.
func (m *migration) security(name, value string) outcome {
	switch name {
	case "security.protocol":
		switch value = strings.ToUpper(value); value {
		case "PLAINTEXT":
			return outcome{Without, "", "The default: plain text."}
		case "SSL", "SASL_SSL":
			m.out.set("kafka.tls.enabled", true)
			return outcome{Translated, "kafka.tls.enabled", ""}
		}
		return outcome{Translated, "kafka.sasl", "Without encryption."}
	case "sasl.mechanism":
		return oneOfUpper(m, value)
	case "sasl.jaas.config":
		return outcome{Translated, "kafka.sasl.username", "The password is not repeated: give it as CDC_OUTBOX_KAFKA_SASL_PASSWORD or in a file."}
	case "ssl.truststore.location":
		if m.pem("truststore") && !placeholder.MatchString(value) {
			m.out.set("kafka.tls.ca", value)
			return outcome{Translated, "kafka.tls.ca", ""}
		}
		return outcome{Decide, "kafka.tls.ca", "A Java key store: export its certificates as PEM (keytool -exportcert -rfc -keystore …) and name that file; leave it out if a public authority signed the brokers' certificates."}
	case "ssl.keystore.location":
		if m.pem("keystore") && !placeholder.MatchString(value) {
			m.out.set("kafka.tls.cert", value)
			m.out.set("kafka.tls.key", value)
			return outcome{Translated, "kafka.tls.cert", "Certificate and key are in the one file."}
		}
		return outcome{Decide, "kafka.tls.cert", "A Java key store: export certificate and key as PEM (keytool -importkeystore … -deststoretype PKCS12, then openssl pkcs12) and name both files."}
	case "ssl.endpoint.identification.algorithm":
		if value == "" {
			return outcome{Decide, "kafka.tls.insecure_skip_verify", "The brokers' names are not checked now. Better give them certificates with their names, or set kafka.tls.server_name."}
		}
		return outcome{Without, "", "The default: names are checked."}
	}
	return outcome{Without, "", "See ssl.truststore.location and ssl.keystore.location."}
}

func (m *migration) pem(store string) bool {
	return strings.EqualFold(m.in.value("producer.override.ssl."+store+".type"), "PEM")
}

func oneOfUpper(m *migration, value string) outcome {
	switch value {
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
		m.out.set("kafka.sasl.mechanism", value)
		return outcome{Translated, "kafka.sasl.mechanism", ""}
	}
	return outcome{Refused, "kafka.sasl.mechanism", "PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 are what there is; the brokers' listener has to offer one of them."}
}

var jaasUser = regexp.MustCompile(`username\s*=\s*("([^"]*)"|([^\s;"]+))`)

func (m *migration) kafka() {
	if m.out["kafka.sasl.mechanism"] == nil {
		return
	}
	m.notes["kafka.sasl.mechanism"] = "The password is not written here: export CDC_OUTBOX_KAFKA_SASL_PASSWORD, or set password: \"@/run/secrets/kafka-password\"."
	found := jaasUser.FindStringSubmatch(m.in.value("producer.override.sasl.jaas.config"))
	if found == nil || placeholder.MatchString(found[0]) {
		m.notes["kafka.sasl.mechanism"] += "\nThe same goes for the user: CDC_OUTBOX_KAFKA_SASL_USERNAME."
		return
	}
	m.out.set("kafka.sasl.username", found[2]+found[3])
}
