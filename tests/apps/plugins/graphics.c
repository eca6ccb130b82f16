/*
 * graphics.c - a driver with graphics functions, which look at all their arguments; without -DWHOLE it
 * has no cuGraphicsGLRegisterImage.
 */
int cuInit(unsigned int flags);
long cuGraphicsGLRegisterImage(long a, long b, long c, long d, long e, long f, long g, long h, double i,
	double j, double k, double l, double m, double n, double o, double p, double q);
int cuGLInit(void);

int cuInit(unsigned int flags)
{
	return flags ? 1 : 0;
}

int cuGLInit(void)
{
	return 77;
}

#ifdef WHOLE
long cuGraphicsGLRegisterImage(long a, long b, long c, long d, long e, long f, long g, long h, double i,
	double j, double k, double l, double m, double n, double o, double p, double q)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k +
		12 * l + 13 * m + 14 * n + 15 * o + 16 * p + 17 * q;
}
#endif
