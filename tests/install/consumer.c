/* consumer.c - a program outside the tree that uses what was installed. */
#include <stdio.h>

#include <taut/base.h>

int main(void)
{
	struct taut_names *names = taut_names_create();
	if (!names || taut_names_add(names, "outside", 7) != 1)
		return 1;
	taut_names_destroy(names);
	puts(taut_version());
	return 0;
}
