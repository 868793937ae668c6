module github.com/basaltmq/basaltmq/scripts/interop/access

go 1.26.0

require (
	github.com/basaltmq/basaltmq v0.0.0
	github.com/rabbitmq/amqp091-go v1.16.0
)

require (
	github.com/BurntSushi/toml v1.6.0 // indirect
	github.com/golang-jwt/jwt/v5 v5.3.1 // indirect
	github.com/pawelgaczynski/giouring v0.0.0-20230826085535-69588b89acb9 // indirect
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
)

replace github.com/basaltmq/basaltmq => ../../..
