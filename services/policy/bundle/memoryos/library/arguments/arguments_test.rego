package memoryos.library.arguments_test

import data.memoryos.library.arguments
import data.memoryos.testing

sent := testing.with_changes({
	"action": {"recipients": ["/to/*", "/copy"]},
	"args": {"to": ["a@example.com", "b@evil.test"], "copy": "c@x.test", "body": "hello", "n": 3, "a/b~c": {"d": "deep"}},
})

test_texts_and_where_they_stand if {
	found := arguments.texts with input as sent
	{t.pointer | some t in found} == {"/to/0", "/to/1", "/copy", "/body", "/a~1b~0c/d"}
}

test_recipients_are_what_the_skill_marks if {
	found := arguments.recipients with input as sent
	{t.value | some t in found} == {"a@example.com", "b@evil.test", "c@x.test"}
	rest := arguments.contents with input as sent
	{t.value | some t in rest} == {"hello", "deep"}
}

test_a_pointer_leads_to_its_own_place_only if {
	not arguments.fits("/to", ["to", 0])
	not arguments.fits("/to/*/x", ["to", 0])
	arguments.fits("/a~1b", ["a/b"])
}

test_addresses if {
	arguments.is_address("a.b+c@example.com")
	every value in ["a@b@c", "a b@c", "<a@b>", "a@b/c", "a@b,c@d", "a", "a@", "a@b\n"] {
		not arguments.is_address(value)
	}
	arguments.domain_of("A@Example.COM") == "example.com"
}

test_links_and_hosts if {
	arguments.is_link("www.evil.test")
	arguments.is_link("https://evil.test/x")
	not arguments.is_link("see www.evil.test")
	arguments.hosts("see www.evil.test/a and HTTPS://Sub.Example.com:443/x") == {"www.evil.test", ""}
	arguments.hosts("https://example.com@evil.test/x") == {""}
	arguments.hosts("nothing here") == set()
}

test_domains_of_the_organisation if {
	arguments.is_internal("example.com")
	arguments.is_internal("mail.EXAMPLE.com")
	not arguments.is_internal("notexample.com")
	not arguments.is_internal("example.com.evil.test")
	not arguments.is_internal("")
}
