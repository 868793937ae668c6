module github.com/basaltmq/basaltmq/scripts/interop/rabbithole

go 1.26

require github.com/michaelklishin/rabbit-hole/v3 v3.5.0
